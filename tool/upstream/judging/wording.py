# SPDX-License-Identifier: Apache-2.0
"""An outcome in a line: its verdict, and how far the geometry that it was met with is the target's own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kvproof.upstream.judging.outcome import Outcome, OutcomeVerdict, one_line
from kvproof.upstream.protocol import Reached
from kvproof.words import over_words


def verdict_words(verdict: OutcomeVerdict, needless: bool) -> str:
    """The verdict, and of a refusal whether it is right."""
    if verdict != "refused":
        return verdict
    return f"refused {'needlessly' if needless else 'rightly'}"


def outcome_words(outcome: Outcome) -> str:
    """The same of an outcome."""
    return verdict_words(outcome.verdict, outcome.needless)


def summary(outcome: Outcome) -> str:
    """Verdict, laws, and the economy of groups that move too much."""
    laws = f" ({', '.join(outcome.laws)})" if outcome.laws else ""
    return f"{outcome_words(outcome)}{laws}{over_words(outcome.ratios)}"


def reach_lines(reached: Reached) -> Iterator[str]:
    """How far the geometry is the target's own, why, and what to launch the engines with."""
    why = _by_side(reached.words)
    first = f": {one_line(why[0])}" if why else ""
    yield f"{reached.tag}{first}"
    yield from (f"    {one_line(words)}" for words in why[1:])
    flags: dict[str, list[str]] = {}
    for flag in reached.flags:
        side, _, words = flag.rpartition(": ")
        flags.setdefault(side, []).append(words)
    if flags:
        yield f"launch: {'; '.join(f'{side}: ' * bool(side) + ' '.join(words) for side, words in flags.items())}"


def _by_side(words: Iterable[str]) -> list[str]:
    """Words like ``P0: this``; those that both sides share are said once."""
    sides: dict[str, list[str]] = {}
    for one in words:
        side, colon, text = one.partition(": ")
        known = bool(colon) and " " not in side
        sides.setdefault(text if known else one, []).append(side if known else "")
    return [f"{', '.join(filter(None, found))}: {text}" if any(found) else text for text, found in sides.items()]
