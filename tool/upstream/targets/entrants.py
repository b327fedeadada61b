# SPDX-License-Identifier: Apache-2.0
"""The targets of one run, as the user named them."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import msgspec

from kvproof.failure import Failure
from kvproof.upstream.targets.releases import PINNED, SUPPORTED, checked_version
from kvproof.upstream.targets.target import Target, python_target, release_target, source_target

ALL = "all"
RELEASE = re.compile(r"[0-9][0-9A-Za-z.]*")


class Entrant(msgspec.Struct, frozen=True):
    """A target. ``name`` heads its column, ``option`` names it again; ``release``: a version of the registry."""

    name: str
    option: str
    target: Target
    release: str | None = None


def entrants(releases: Sequence[str], source: Path | None, python: Path | None) -> list[Entrant]:
    """The targets that the options name; by default the pinned releases. Fetches what is not there. Raises Failure."""
    given = [name for name, value in (("--release", releases), ("--source", source), ("--python", python)) if value]
    if len(given) > 1:
        raise Failure(f"{' and '.join(given)}: give one of them (`kvproof upstream compare` takes two targets)")
    if source is not None:
        return [of_source("--source", source)]
    if python is not None:
        return [Entrant(str(python), f"--python {shlex.quote(str(python))}", python_target(python))]
    return of_releases(versions(releases))


def versions(words: Sequence[str]) -> list[str]:
    """The versions that are meant, each once: ``all`` is all supported ones, nothing the pinned ones."""
    named = [version for word in words for version in (SUPPORTED if word == ALL else (_checked(word),))]
    return list(dict.fromkeys(named or PINNED))


def of_releases(names: Sequence[str]) -> list[Entrant]:
    """Releases of the registry, fetched where they are not in the cache."""
    return [Entrant(name, f"--release {name}", release_target(name), name) for name in names]


def of_source(option: str, path: Path) -> Entrant:
    """A checkout."""
    try:
        return Entrant(str(path), f"--source {shlex.quote(str(path))}", source_target(path))
    except Failure as failure:
        raise Failure(f"{option}: {failure.words}", status=failure.status) from None


def side(what: str, word: str) -> Entrant:
    """One side of a comparison: a release, or the path of a checkout."""
    if os.sep in word or os.path.lexists(word):
        return of_source(what, Path(word))
    if RELEASE.fullmatch(word) is None:
        raise Failure(f"{what}: {word!r} is neither a release ({', '.join(SUPPORTED)}) nor the path of a checkout")
    return of_releases([_checked(word)])[0]


def _checked(word: str) -> str:
    try:
        return checked_version(word)
    except Failure as failure:
        raise Failure(f"--release: {failure.words}, or {ALL}") from None
