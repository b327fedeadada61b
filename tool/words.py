# SPDX-License-Identifier: Apache-2.0
"""Judgements for people and for programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

import msgspec

from kvproof.shapes import judgement_shape
from kvproof.spec.judge.verdict import Finding, Judgement

FINDINGS_SHOWN = 8

NOT_PROVEN_BY_CHECK = (
    "These are answers for these geometries; `kvproof prove` has the claims for all sizes.",
    "Taken on trust: that the engine's tables are what the case says, that sources stay unchanged during the transfer,",
    "that each byte ends as one of its writes (W18), and the transport (`kvproof transfer` tries it).",
)

NOT_PROVEN_BY_JUDGE = (
    "Judged for this one request. Taken on trust: that the case describes the engines, that sources stay unchanged",
    "during the transfer, and that each byte ends as one of its writes (W18).",
)


def main_finding(judgement: Judgement) -> Finding | None:
    """The finding that a reader wants first: one that shows wrong bytes, if any does."""
    return next((finding for finding in judgement.findings if finding.corrupting), next(iter(judgement.findings), None))


def headline(judgement: Judgement) -> str:
    """What is wrong, in words: which tokens of which layers hold what instead. Empty where nothing is."""
    finding = main_finding(judgement)
    return finding.words if finding is not None else judgement.reason or ""


def summary(judgement: Judgement) -> str:
    """The verdict, the laws broken, and the economy of groups that move too much."""
    text: str = judgement.verdict
    if judgement.laws:
        text += f" ({', '.join(judgement.laws)})"
    return text + over_words(judgement.ratios)


def over_words(ratios: Mapping[str, tuple[int, int]]) -> str:
    """The economy of groups that move too much, to stand behind a verdict; nothing where there are none."""
    over = [f"{group} {ratio_words(*ratio)}" for group, ratio in ratios.items() if ratio[0] > ratio[1]]
    return f"; bytes moved ÷ useful: {', '.join(over)}" if over else ""


def ratio_words(moved: int, useful: int) -> str:
    """A ratio as a reduced fraction."""
    return str(Fraction(moved, useful)) if useful else f"{moved}/0"


def other_findings(judgement: Judgement) -> list[str]:
    """All findings but the headline's, each with its law, long lists cut with a count."""
    first = main_finding(judgement)
    rest = [finding for finding in judgement.findings if finding is not first]
    lines = [f"{finding.law}: {finding.words}" for finding in rest[:FINDINGS_SHOWN]]
    if len(rest) > FINDINGS_SHOWN:
        lines.append(f"… and {len(rest) - FINDINGS_SHOWN} more")
    return lines


def witness_words(finding: Finding) -> str:
    """Where the first wrong byte lies."""
    seen = finding.witness
    return "" if seen is None else f"first byte: {seen.storage} of {seen.worker}, byte {seen.byte}"


def judgement_data(judgement: Judgement) -> dict[str, Any]:
    """A judgement in JSON: verdict, laws, findings with words and witness, economy, the bytes that end wrong."""
    data: dict[str, Any] = msgspec.to_builtins(judgement_shape(judgement, headline(judgement) or None))
    return data


def plural(count: int, noun: str) -> str:
    """``1 case``, ``2 cases``, ``1,000 cases``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def tally(words: Iterable[str]) -> str:
    """How often each word, in order of appearance: ``3 lawful, 1 refused``."""
    counts: dict[str, int] = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    return ", ".join(f"{count} {word}" for word, count in counts.items())
