# SPDX-License-Identifier: Apache-2.0
"""One case along the releases, and where it changed: ``kvproof upstream bisect``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec

from kvproof.exits import Exit
from kvproof.output import Output
from kvproof.upstream.judging.wording import summary
from kvproof.upstream.matrix.changes import badness, differences
from kvproof.upstream.matrix.rows import Row
from kvproof.upstream.matrix.telling import NOT_PROVEN, again, row_data
from kvproof.upstream.running.session import Way


class Step(msgspec.Struct, frozen=True):
    """A release that does something else than the one before it, and what is different, in words."""

    before: Row
    after: Row
    words: tuple[str, ...]


def steps(rows: Sequence[Row]) -> list[Step]:
    """Where neighbours differ. All of them are compared: what goes wrong, is repaired and goes wrong again shows.

    A release that does not cover the case is no neighbour: nothing is known of it.
    """
    known = [row for row in rows if badness(row.outcome) is not None]
    found = ((before, after, differences(before, after)) for before, after in pairwise(known))
    return [Step(before, after, words) for before, after, words in found if words]


def history_status(rows: Sequence[Row]) -> Exit:
    """A history is an answer, whatever it is; unless nothing in it is known, or something in it is our own fault."""
    verdicts = [row.outcome.verdict for row in rows]
    if "fault" in verdicts:
        return Exit.FAULT
    return Exit.UNKNOWN if all(verdict in ("not-covered", "unknown") for verdict in verdicts) else Exit.OK


def show_history(out: Output, rows: Sequence[Row], way: Way) -> Exit:
    """Print it."""
    name, found = rows[0].subject.case.name, steps(rows)
    status = history_status(rows)
    out.line(f"{name}, {way.connector}, {way.nixl} NIXL", "head")
    out.table(["release", "outcome"], [[row.entrant.name, _told(row)] for row in rows])
    known = [row.entrant.name for row in rows if badness(row.outcome) is not None]
    if not found:
        out.line(f"no change from {known[0]} to {known[-1]}" if known else "nothing is known of it")
    for number, step in enumerate(found):
        which = "first change" if number == 0 else "then"
        out.line(f"{which}: {step.after.entrant.name} after {step.before.entrant.name}", "head")
        for text in step.words:
            out.line(f"    {text}")
    out.line(f"again: {again(rows[-1], way)}", "dim")
    for text in NOT_PROVEN:
        out.line(text, "dim")
    out.answer("upstream", status, _data(rows, found, way))
    return status


def _told(row: Row) -> str:
    found = row.outcome
    tag = f", {found.reached.tag}" if found.reached is not None and found.verdict != "lawful" else ""
    words = found.words if found.verdict not in ("lawful", "refused") else (found.reason or "")
    return f"{summary(found)}{tag}{f': {words}' if words else ''}"


def _data(rows: Sequence[Row], found: Sequence[Step], way: Way) -> dict[str, Any]:
    changed = [
        {"release": step.after.entrant.name, "after": step.before.entrant.name, "words": list(step.words)}
        for step in found
    ]
    return {
        "laws": sorted({law for row in rows for law in row.outcome.laws}),
        "action": "bisect",
        "connector": way.connector,
        "nixl": way.nixl,
        "case": rows[0].subject.case.name,
        "first_change": changed[0]["release"] if changed else None,
        "changes": changed,
        "rows": [row_data(row, way) for row in rows],
        "not_proven": list(NOT_PROVEN),
    }
