# SPDX-License-Identifier: Apache-2.0
"""What each supported release is known to do with each built-in case: ``expected.toml``.

A release that is known to be corrupt on a case does not fail anybody's CI; one that changes does. Whatever is not
covered stands there too, with its reason, so that nothing becomes uncovered unnoticed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Annotated

import msgspec

from kvproof.sources import built_in, read_case
from kvproof.spec.vocabulary import Case, Expect, Law, Name
from kvproof.upstream.judging.outcome import Outcome, OutcomeVerdict
from kvproof.upstream.judging.wording import outcome_words, verdict_words
from kvproof.upstream.protocol import Reach
from kvproof.words import ratio_words

FILE = "expected.toml"


Ratios = Mapping[str, tuple[int, int]]
"""Group of a worker: bytes moved and useful."""


class Expected(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One outcome, of the releases from ``first`` to ``last`` (none given: from the oldest, to the newest).

    ``laws`` is the exact set; ``ratio``: "worker.group" -> bytes moved and useful, reduced; ``reason`` is part of
    the reason of a refusal, or of what is not covered. ``reach`` and ``reason`` are unchecked where absent.
    """

    first: str | None = None
    last: str | None = None
    verdict: OutcomeVerdict
    needless: bool = False
    laws: tuple[Law, ...] = ()
    reach: Reach | None = None
    ratio: dict[Name, tuple[int, int]] = {}
    reason: str | None = None


class Book(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file: connector -> case -> outcomes, whose releases do not overlap."""

    format: Annotated[int, msgspec.Meta(ge=1, le=1)]
    connector: dict[str, dict[Name, tuple[Expected, ...]]]

    def of(self, connector: str, case: str, release: str, releases: Sequence[str]) -> Expected | None:
        """What is known of a release, which is one of ``releases``, the supported ones from old to new."""
        if release not in releases:
            return None
        for expected in self.connector.get(connector, {}).get(case, ()):
            if release in span(expected, releases):
                return expected
        return None


def span(expected: Expected, releases: Sequence[str]) -> Sequence[str]:
    """The releases that an outcome is expected of."""
    first = 0 if expected.first is None else releases.index(expected.first)
    last = len(releases) - 1 if expected.last is None else releases.index(expected.last)
    return releases[first : last + 1]


@cache
def book() -> Book:
    """The expectations that come with kvproof."""
    return book_of(resources.files("kvproof.upstream").joinpath(FILE).read_text(encoding="utf-8"))


def book_of(text: str) -> Book:
    """The expectations that a file holds. It is ours, so that an error in it is a fault of ours."""
    found: Book = msgspec.convert(tomllib.loads(text), Book)
    return found


def is_built_in(case: Case) -> bool:
    """Whether this is the built-in case of its name, and not somebody's edited copy. Expectations aside."""
    known = built_in(case.name)
    return known is not None and _bare(read_case(known)) == _bare(case)


def _bare(case: Case) -> Case:
    return msgspec.structs.replace(case, expect=Expect())


def misses(expected: Expected, outcome: Outcome) -> Iterator[str]:
    """Where an outcome is not the expected one, in words."""
    wanted, found = verdict_words(expected.verdict, expected.needless), outcome_words(outcome)
    if wanted != found:
        yield f"{wanted} expected, found {found}"
        return
    if set(expected.laws) != set(outcome.laws):
        yield f"laws: {', '.join(expected.laws) or 'none'} expected, found {', '.join(outcome.laws) or 'none'}"
    tag = outcome.reached.tag if outcome.reached is not None else None
    if expected.reach is not None and expected.reach != tag:
        yield f"reach: {expected.reach} expected, found {tag or 'none'}"
    yield from _ratio_misses(expected.ratio, outcome.ratios)
    if expected.reason is not None and expected.reason not in (outcome.reason or ""):
        yield f"reason: {expected.reason!r} expected, found {outcome.reason!r}"


def _ratio_misses(wanted: Ratios, found: Ratios) -> Iterator[str]:
    """Groups that move more or less for nothing than expected; of one that is not named, nothing is."""
    for group in dict.fromkeys((*wanted, *found)):
        moved, useful = found.get(group, (0, 0))
        if group not in wanted and not moved > useful > 0:
            continue
        most = wanted.get(group, (1, 1))
        if not useful or moved * most[1] != useful * most[0]:
            words = ratio_words(moved, useful) if group in found else "nothing moved"
            yield f"ratio of {group}: {ratio_words(*most)} expected, found {words}"
