# SPDX-License-Identifier: Apache-2.0
"""Source distributions in a package index. pip would build them to download them; this only fetches the file.

The index and the certificates are those that pip is configured with; proxies are those of the environment.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import ssl
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import IO
from urllib.parse import unquote, urljoin, urlsplit

from kvproof.failure import Failure
from kvproof.upstream import pip

DEFAULT_INDEX = "https://pypi.org/simple"
ANSWER_SECONDS = 60.0
"""For a server to say something; the whole file may take ``FETCH_SECONDS``."""
FETCH_SECONDS = 1800.0

_JSON = "application/vnd.pypi.simple.v1+json"
_SETTING = re.compile(r"(?::env:|global|install|download)\.(index-url|cert)='(.*)'")
_CONFIG_SECONDS = 60.0
_PAGE_BYTES = 64 * 2**20
_READ_BYTES = 2**20


class Index:
    """A package index with the simple API, as JSON or HTML. ``certificates``: a file, None for the system's own."""

    def __init__(self, url: str = DEFAULT_INDEX, certificates: str | None = None) -> None:
        self.url = url.rstrip("/")
        try:
            self._context = ssl.create_default_context(cafile=certificates)
        except OSError as error:
            raise Failure(f"pip's certificates {certificates} cannot be read: {error.strerror or error}") from None

    def source_distribution(self, project: str, version: str, place: Path) -> bool:
        """Write the file to ``place``. False: the index has none. Raises Failure where it cannot be fetched."""
        with self._opened(f"{self.url}/{project}/") as (page, headers, address):
            found = _links(page.read(_PAGE_BYTES), headers, address)
        name = f"{project}-{version}.tar.gz"
        url = next((url for url in found if unquote(urlsplit(url).path).endswith(f"/{name}")), None)
        if url is None:
            return False
        digest, until = hashlib.sha256(), time.monotonic() + FETCH_SECONDS
        with self._opened(url) as (answer, _, _), place.open("wb") as file:
            while data := answer.read(_READ_BYTES):
                digest.update(data)
                file.write(data)
                if time.monotonic() > until:
                    raise Failure(f"{name}: not fetched within {FETCH_SECONDS:g} s from {self._shown}")
        kind, _, wanted = urlsplit(url).fragment.partition("=")
        if kind == "sha256" and wanted != digest.hexdigest():
            raise Failure(f"{name}: what {self._shown} sent is not the file that it lists")
        return True

    @contextmanager
    def _opened(self, url: str) -> Iterator[tuple[IO[bytes], HTTPMessage, str]]:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        request = urllib.request.Request(parts._replace(netloc=host, fragment="").geturl())
        request.add_header("Accept", f"{_JSON}, text/html;q=0.5")
        own = urlsplit(self.url)
        if own.username and host == own.netloc.rpartition("@")[2]:
            secret = f"{unquote(own.username)}:{unquote(own.password or '')}"
            request.add_unredirected_header("Authorization", f"Basic {base64.b64encode(secret.encode()).decode()}")
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_SECONDS, context=self._context) as answer:
                yield answer, answer.headers, answer.url
        except (OSError, HTTPException) as error:
            raise Failure(f"the package index {self._shown} cannot be read: {error}") from None

    @property
    def _shown(self) -> str:
        """Its address, without the password that may be in it."""
        parts = urlsplit(self.url)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def configured_index(python: Path) -> Index:
    """The index that the pip of ``python`` is configured with. Raises Failure."""
    listed = pip.run(python, "pip", "config", "list", doing="reading pip's configuration", seconds=_CONFIG_SECONDS)
    settings: dict[str, str] = {}
    for line in listed.splitlines():
        if found := _SETTING.fullmatch(line.strip()):
            settings.setdefault(found[1], found[2])  # the environment's come first
    return Index(settings.get("index-url", DEFAULT_INDEX), settings.get("cert"))


def _links(page: bytes, headers: HTTPMessage, address: str) -> list[str]:
    """Addresses of the files on a project's page; a fragment holds the hash, as it does in HTML."""
    if headers.get_content_type() != _JSON:
        reader = _Anchors()
        reader.feed(page.decode(errors="replace"))
        return [urljoin(address, link) for link in reader.links]
    try:
        files = json.loads(page)["files"]
        return [f"{urljoin(address, file['url'])}#sha256={file['hashes'].get('sha256', '')}" for file in files]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise Failure(f"{address} is no page of a package index: {error}") from None


class _Anchors(HTMLParser):
    """The links of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.links += [value for name, value in attrs if name == "href" and value]
