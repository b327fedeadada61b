# SPDX-License-Identifier: Apache-2.0
"""The rows of a run for people and for programs: a block for each case with something to say, a matrix, the reasons."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from kvproof.exits import WORDS, Exit
from kvproof.junit import TestCase, outcome_of
from kvproof.output import Output, answer_stream, clean
from kvproof.shapes import judgement_shape
from kvproof.upstream.judging.cause import explaining
from kvproof.upstream.judging.pages import page_words
from kvproof.upstream.judging.wording import outcome_words, reach_lines, summary
from kvproof.upstream.matrix.rows import Row
from kvproof.upstream.running.session import Way
from kvproof.upstream.targets.releases import SUPPORTED
from kvproof.words import main_finding, plural, ratio_words, tally, witness_words

NOT_PROVEN = (
    "Seen of these targets with these cases, one request at a time, workers in one process on a CPU. What is not run:",
    "the engine's scheduler, its side channel, kernels, and failures. `reachable` rests on the target's own planner.",
)

LINES_SHOWN = 6
UNCOVERED = "–"
STYLES = {
    "lawful": "good", "wasteful": "doubt", "hazard": "bad", "corrupt": "bad", "crashed": "bad", "hung": "bad",
    "garbage": "bad", "fault": "bad", "unknown": "doubt",
}  # fmt: skip

Line = tuple[str, str | None]


def again(row: Row, way: Way) -> str:
    """The command that shows this row again."""
    source = row.subject.source
    case = row.subject.case.name if source.built_in is not None else shlex.quote(source.name if source.path else "-")
    if case.startswith("-") and case != "-":
        case = f"./{case}"
    return f"kvproof upstream {row.entrant.option} --connector {way.connector} --nixl {way.nixl} {case}"


def blocks(rows: Sequence[Row], way: Way) -> Iterator[Line]:
    """For each case with something to say, and for each different thing said of it: what, where, how to see it."""
    for group in _alike(rows):
        if not all(row.plain for row in group):
            yield from _block(group, way)


def _alike(rows: Iterable[Row]) -> list[list[Row]]:
    """Rows of one case that say the same, in the order of the cases."""
    cases: dict[int, dict[bytes, list[Row]]] = {}
    for row in rows:
        cases.setdefault(id(row.subject), {}).setdefault(_said(row), []).append(row)
    return [group for found in cases.values() for group in found.values()]


def _said(row: Row) -> bytes:
    found = row.outcome
    shown = (found.verdict, found.needless, found.laws, found.words, found.others, found.ratios, found.reached)
    return msgspec.json.encode((shown, found.pages, row.misses, row.status, row.expected is None))


def _block(group: Sequence[Row], way: Way) -> Iterator[Line]:
    row, found = group[-1], group[-1].outcome
    style = STYLES.get(found.verdict, "doubt")
    first = f"{found.verdict} {found.words}" if found.verdict == "refused" else found.words or summary(found)
    yield f"{row.subject.case.name}: {first}", style
    yield f"    {summary(found)} on {', '.join(one.entrant.name for one in group)}{_known(row)}", None
    for text in row.misses:
        yield f"    not as expected: {text}", "bad"
    yield from ((f"    {text}", None) for text in _details(row))
    yield f"    again: {again(row, way)}", "dim"


def _known(row: Row) -> str:
    if row.expected is None:
        return ", nothing known of it" if row.status != Exit.OK else ""
    return "" if row.misses else ", as expected"


def _details(row: Row) -> Iterator[str]:
    found = row.outcome
    if found.reached is not None:
        yield from reach_lines(found.reached)
    if found.verdict == "corrupt" and found.judgement is not None:
        finding = main_finding(found.judgement)
        yield from [] if finding is None or finding.witness is None else [witness_words(finding)]
        yield from _some(page_words(found.pages))
    rules = explaining(row.subject.case, found)
    if rules:
        yield f"just what the rule {' or '.join(rules)} does (docs/bugs.md)"
    yield from _some(found.others)


def _some(lines: Sequence[str]) -> list[str]:
    rest = len(lines) - LINES_SHOWN
    return [*lines[:LINES_SHOWN], *([f"… and {rest} more"] if rest > 0 else [])]


def cell(row: Row) -> str:
    """One row in the matrix: ``corrupt``, ``wasteful 3/2``; with a mark if it is not as expected, or wrong and news."""
    found = row.outcome
    text: str = found.verdict
    if found.verdict == "not-covered":
        text = UNCOVERED
    elif found.verdict == "refused":
        text = "needless" if found.needless else "refused"
    elif found.verdict == "wasteful":
        over = max((ratio for ratio in found.ratios.values() if ratio[0] > ratio[1]), key=_size, default=None)
        text += f" {ratio_words(*over)}" if over is not None else ""
    return f"{text} !" if row.misses or (row.expected is None and row.status == Exit.BROKEN) else text


def _size(ratio: tuple[int, int]) -> float:
    return ratio[0] / ratio[1] if ratio[1] else float("inf")


def show_matrix(out: Output, rows: Sequence[Row]) -> None:
    """Cases that any target covers, by target."""
    names = list(dict.fromkeys(row.entrant.name for row in rows))
    table: dict[int, dict[str, Row]] = {}
    for row in rows:
        table.setdefault(id(row.subject), {})[row.entrant.name] = row
    shown = [found for found in table.values() if any(_in_matrix(row) for row in found.values())]
    if not shown or out.json:
        return
    out.line()
    if out.terminal:
        _rich_matrix(names, shown)
    else:
        lines = [[_case_name(found), *(cell(found[name]) for name in names)] for found in shown]
        out.table(["case", *names], lines, indent=0)


def _in_matrix(row: Row) -> bool:
    return row.outcome.verdict != "not-covered" or bool(row.misses)


def _rich_matrix(names: Sequence[str], shown: Sequence[dict[str, Row]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from kvproof.output import STYLES as COLOURS

    table = Table(box=None, pad_edge=False, header_style="dim")
    for head in ("case", *names):
        table.add_column(clean(head), overflow="fold")
    for found in shown:
        cells = [Text(clean(_case_name(found)))]
        for name in names:
            style = "bad" if found[name].misses else STYLES.get(found[name].outcome.verdict, "dim")
            cells.append(Text(cell(found[name]), style=COLOURS[style]))
        table.add_row(*cells)
    Console(file=answer_stream(), highlight=False).print(table)


def _case_name(found: dict[str, Row]) -> str:
    return next(iter(found.values())).subject.case.name


def conclusion(rows: Sequence[Row], way: Way) -> Iterator[Line]:
    """The counts, and what is not covered, by reason."""
    targets = plural(len({row.entrant.name for row in rows}), "target")
    cases = plural(len({id(row.subject) for row in rows}), "case")
    counts = tally(outcome_words(row.outcome) for row in rows)
    pinned = [row for row in rows if row.expected is not None]
    wrong = sum(bool(row.misses) for row in pinned)
    known = f"; {len(pinned) - wrong} as expected, {wrong} not" if pinned else ""
    news = sum(row.expected is None and row.status == Exit.BROKEN for row in rows)
    known += f"; {news} wrong of which nothing is known" if news else ""
    good = all(row.status == Exit.OK for row in rows)
    yield f"{cases} on {targets}, {way.connector}, {way.nixl} NIXL: {counts}{known}", ("good" if good else "bad")
    for name, version in dict.fromkeys((row.entrant.name, row.version) for row in rows):
        if version is not None and version.partition("+")[0] not in SUPPORTED:
            yield f"    {name} says it is {version}, which the probes were not written for", "doubt"
    for reason, found in uncovered(rows).items():
        names = list(dict.fromkeys(row.subject.case.name for row in found))
        more = f", … {len(names)} in all" if len(names) > 3 else ""
        yield f"    not covered: {reason}: {plural(len(found), 'row')} ({', '.join(names[:3])}{more})", "dim"


def uncovered(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """The rows that are not covered, by reason: what is missing, or kvproof's own words without the case's numbers."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row.outcome.verdict == "not-covered":
            reason = row.outcome.missing or re.sub(r"\d+", "N", row.outcome.reason or "no reason")
            found.setdefault(reason, []).append(row)
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def row_data(row: Row, way: Way) -> dict[str, Any]:
    """A row in JSON."""
    found = row.outcome
    judged = msgspec.to_builtins(judgement_shape(found.judgement, None)) if found.judgement is not None else {}
    return {
        "target": row.entrant.name,
        "case": row.subject.case.name,
        "file": row.subject.source.name,
        "verdict": found.verdict,
        "laws": list(found.laws),
        "needless": found.needless if found.verdict == "refused" else None,
        "outcome": WORDS[row.status],
        "exit": int(row.status),
        "expected": msgspec.to_builtins(row.expected) if row.expected is not None else None,
        "problems": list(row.misses),
        "words": found.words or None,
        "others": list(found.others),
        "reason": found.reason,
        "missing": found.missing or None,
        "told": msgspec.to_builtins(found.told) if found.told is not None else None,
        "reached": msgspec.to_builtins(msgspec.structs.asdict(found.reached)) if found.reached is not None else None,
        "findings": judged.get("findings", []),
        "ratios": msgspec.to_builtins(found.ratios),
        "corrupt": judged.get("corrupt", []),
        "rules": list(explaining(row.subject.case, found)),
        "regions": msgspec.to_builtins(found.regions),
        "pages": msgspec.to_builtins(found.pages),
        "memory": found.memory,
        "notes": list(found.notes),
        "again": again(row, way),
        "seconds": row.seconds,
    }


def row_report(row: Row) -> TestCase:
    """A row in a JUnit report."""
    found = row.outcome
    name = f"{row.entrant.name} {row.subject.case.name}"
    words = "; ".join(row.misses) or found.words or summary(found)
    details = "\n".join((summary(found), *_details(row)))
    if row.status == Exit.OK and found.verdict == "not-covered":
        return TestCase(name, "skipped", found.reason or "", details, row.seconds)
    return TestCase(name, outcome_of(row.status), words, details, row.seconds)
