# SPDX-License-Identifier: Apache-2.0
"""What one target changed against another: ``kvproof upstream compare``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvproof.exits import Exit
from kvproof.output import Output
from kvproof.upstream.judging.wording import outcome_words, reach_lines
from kvproof.upstream.matrix.changes import Change, changes, status_of_changes
from kvproof.upstream.matrix.rows import Row
from kvproof.upstream.matrix.telling import NOT_PROVEN, again, conclusion, row_data
from kvproof.upstream.running.session import Way
from kvproof.words import plural, tally


def show_comparison(out: Output, before: Sequence[Row], after: Sequence[Row], way: Way) -> Exit:
    """Print it: each case that differs, worst first, then the counts of both sides."""
    found = changes(before, after)
    status = status_of_changes(before, after, found)
    base, head = before[0].entrant.name, after[0].entrant.name
    for change in found:
        _show(out, change, way)
    same = len(before) - len(found)
    kinds = tally(change.kind for change in found)
    words = f"{base} → {head}: {kinds or 'no difference'}; {same} of {plural(len(before), 'case')} unchanged"
    out.line(words, {Exit.OK: "good", Exit.UNKNOWN: "doubt"}.get(status, "bad"))
    for side in (before, after):
        first, *rest = conclusion(side, way)
        out.line(f"{side[0].entrant.name}: {first[0]}")
        for text, style in rest:
            out.line(text, style)
    for text in NOT_PROVEN:
        out.line(text, "dim")
    out.answer("upstream", status, _data(before, after, found, way))
    return status


def _show(out: Output, change: Change, way: Way) -> None:
    outcome = change.after.outcome
    words = outcome.reason if outcome.verdict == "refused" else outcome.words  # the kind says whether it is rightly
    told = f", still {outcome_words(outcome)}" if change.kind == "changed" else f": {words}" if words else ""
    first = f"{change.case}: {change.kind}{told}"
    out.line(first, "bad" if change.worse else "good" if change.kind == "newly lawful" else "doubt")
    reached = outcome.reached
    for text in reach_lines(reached) if reached is not None else ():
        out.line(f"    {text}")
    for text in change.words:
        out.line(f"    {text}")
    out.line(f"    again: {again(change.after, way)}", "dim")


def _data(before: Sequence[Row], after: Sequence[Row], found: Sequence[Change], way: Way) -> dict[str, Any]:
    return {
        "laws": sorted({law for row in after for law in row.outcome.laws}),
        "action": "compare",
        "connector": way.connector,
        "nixl": way.nixl,
        "base": before[0].entrant.name,
        "head": after[0].entrant.name,
        "unchanged": len(before) - len(found),
        "changes": [
            {"case": change.case, "kind": change.kind, "worse": change.worse, "words": list(change.words)}
            for change in found
        ],
        "rows": [row_data(row, way) for row in (*before, *after)],
        "not_proven": list(NOT_PROVEN),
    }
