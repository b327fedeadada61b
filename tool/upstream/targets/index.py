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
from email.message import Message
from html.parser import HTMLParser
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

from kvproof.failure import Failure
from kvproof.upstream.targets import pip

DEFAULT_INDEX = "https://pypi.org/simple"
ANSWER_SECONDS = 60.0
"""For a server to say something; the whole file may take ``FETCH_SECONDS``."""
FETCH_SECONDS = 1800.0
PAGE_BYTES = 64 * 2**20
"""The page of a project may be this long."""

_JSON = "application/vnd.pypi.simple.v1+json"
_SETTING = re.compile(r"(?::env:|global|install|download)\.(index-url|cert)='(.*)'")
_CONFIG_SECONDS = 60.0
_READ_BYTES = 2**20


class Index:
    """A package index with the simple API, as JSON or HTML. ``certificates``: a file, None for the system's own."""

    def __init__(self, url: str = DEFAULT_INDEX, certificates: str | None = None) -> None:
        self.url = url.rstrip("/")
        try:
            urlsplit(self.url)
        except ValueError:
            raise Failure("the package index that pip is configured with (index-url) is no address") from None
        try:
            self._context = ssl.create_default_context(cafile=certificates)
        except OSError as error:
            raise Failure(f"pip's certificates {certificates} cannot be read: {error.strerror or error}") from None

    def source_distribution(self, project: str, version: str, place: Path) -> bool:
        """Write the file to ``place``. False: the index has none. Raises Failure where it cannot be fetched."""
        name = f"{project}-{version}.tar.gz"
        url = self._address(project, name)
        if url is None:
            return False
        digest = hashlib.sha256()
        with self._opened(url) as answer, place.open("wb") as file:
            for data in self._chunks(answer, name):
                digest.update(data)
                file.write(data)
        kind, _, wanted = urlsplit(url).fragment.partition("=")
        if kind == "sha256" and wanted != digest.hexdigest():
            raise Failure(f"{name}: what {self._shown} sent is not the file that it lists")
        return True

    def _address(self, project: str, name: str) -> str | None:
        """Where a file of the project is; None where its page does not list it."""
        page = bytearray()
        with self._opened(f"{self.url}/{project}/") as answer:
            for data in self._chunks(answer, f"its page of {project}"):
                page += data
                if len(page) > PAGE_BYTES:
                    raise Failure(f"{answer.url} is no page of a package index: it has more than {PAGE_BYTES} bytes")
            found = _links(page, answer.headers, answer.url)
        return next((url for url in found if unquote(urlsplit(url).path).endswith(f"/{name}")), None)

    @contextmanager
    def _opened(self, url: str) -> Iterator[HTTPResponse]:
        with self._reached():
            parts = urlsplit(url)
            host = parts.netloc.rpartition("@")[2]
            request = urllib.request.Request(parts._replace(netloc=host, fragment="").geturl())
            request.add_header("Accept", f"{_JSON}, text/html;q=0.5")
            own = urlsplit(self.url)
            if own.username and host == own.netloc.rpartition("@")[2]:
                secret = f"{unquote(own.username)}:{unquote(own.password or '')}"
                request.add_unredirected_header("Authorization", f"Basic {base64.b64encode(secret.encode()).decode()}")
            answer = urllib.request.urlopen(request, timeout=ANSWER_SECONDS, context=self._context)
        with answer:
            yield answer

    def _chunks(self, answer: HTTPResponse, what: str) -> Iterator[bytes]:
        """All of an answer, as it comes in. Raises Failure where it stops coming, or never ends."""
        until = time.monotonic() + FETCH_SECONDS
        while True:
            with self._reached():
                data = answer.read1(_READ_BYTES)
            if not data:
                return
            yield data
            if time.monotonic() > until:
                raise Failure(f"{what}: not fetched within {FETCH_SECONDS:g} s from {self._shown}")

    @contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except (OSError, HTTPException, ValueError) as error:  # ValueError: no address, or of no known kind
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


def _links(page: bytes | bytearray, headers: Message, address: str) -> list[str]:
    """Addresses of the files on a project's page; a fragment holds the hash, as it does in HTML."""
    try:
        if headers.get_content_type() == _JSON:
            return [_link(file, address) for file in json.loads(page)["files"]]
        reader = _Anchors()
        reader.feed(page.decode(errors="replace"))
        return [urljoin(address, link) for link in reader.links]
    except (ValueError, LookupError, TypeError, AttributeError, AssertionError, RecursionError) as error:
        raise Failure(f"{address} is no page of a package index: {error}") from None


def _link(file: dict[str, Any], address: str) -> str:
    """The address of a file in JSON, with its hash if it is listed with one."""
    digest = file["hashes"].get("sha256")
    return f"{urljoin(address, file['url'])}{f'#sha256={digest}' if digest else ''}"


class _Anchors(HTMLParser):
    """The links of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.links += [value for name, value in attrs if name == "href" and value]
