# SPDX-License-Identifier: Apache-2.0
"""``kvproof upstream``: what do the connectors that people ship do with the cases?"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from kvproof.commands import upstream_end_to_end, upstream_tests
from kvproof.exits import Exit, worst
from kvproof.failure import Failure
from kvproof.junit import write_junit
from kvproof.options import SEED_LIMIT, CaseFiles, Flag, Json, Junit, OutputPath, seconds, whole
from kvproof.output import Output, clean, remark
from kvproof.places import unwritable, usable_folder, writable_file
from kvproof.sources import case_sources

if TYPE_CHECKING:
    from kvproof.upstream.matrix.rows import Bar, Row, Subject
    from kvproof.upstream.running.session import Way
    from kvproof.upstream.targets.entrants import Entrant

Release = Annotated[
    tuple[str, ...], Parameter(negative=(), help="A release of vLLM; repeatable. `all`: all that are supported.")
]
Source = Annotated[Path | None, Parameter(help="A checkout of vLLM, in the environment of the releases.")]
Python = Annotated[Path | None, Parameter(help="A Python, or a virtual environment, where vLLM is installed.")]
Connector = Annotated[Literal["nixl-pull", "nixl-push", "mooncake"], Parameter(help="Which of its connectors.")]
NixlKind = Annotated[Literal["fake", "real"], Parameter(help="fake: the agent records; real: NIXL moves the bytes.")]
Strict = Annotated[Flag, Parameter(help="Wasteful is exit 1, too, where nothing else is expected.")]
Deadline = Annotated[float, seconds(), Parameter(help="Seconds that one case may take; of generated ones, at most 10.")]
Fuzz = Annotated[float | None, seconds(), Parameter(help="Try generated cases for so many seconds instead.")]
Seed = Annotated[int, whole(0, SEED_LIMIT), Parameter(help="With --fuzz: decides which cases.")]
Folder = Annotated[Path | None, OutputPath, Parameter(help="With --fuzz: where found cases go; ./kvproof-fuzz.")]
CaseName = Annotated[str, Parameter(help="A case file, the name of a built-in case, or - for standard input.")]
Side = Annotated[str, Parameter(help="A release, or the path of a checkout.")]

CASE_SECONDS = 60.0
CLEARED = "\r\x1b[K"
"""What takes a line of a terminal back."""

command = App(help="Run the connectors that people ship on the cases, and judge what they do (docs/upstream.md).")
command.command(upstream_end_to_end.command, name="end-to-end")
command.command(upstream_tests.command, name="tests")


@command.default
def run(
    *cases: CaseFiles,
    release: Release = (),
    source: Source = None,
    python: Python = None,
    connector: Connector = "nixl-pull",
    nixl: NixlKind = "fake",
    strict: Strict = False,
    deadline: Deadline = CASE_SECONDS,
    fuzz: Fuzz = None,
    seed: Seed = 0,
    out: Folder = None,
    json: Json = False,
    junit: Junit = None,
) -> int:
    """Put each case to each target, and judge what it does.

    Without targets, the pinned releases; without cases, the built-in ones. Exit 0 if every outcome is as expected of
    that release, or is right where nothing is known of it; 1 if not; 3 if a case that was asked for is not covered.
    """
    from kvproof.upstream.matrix.rows import Bar
    from kvproof.upstream.running.session import Way

    way = Way(connector, nixl, deadline)
    if fuzz is not None:
        return _search(cases, (release, source, python), way, fuzz, seed, out, strict, json, junit)
    if out is not None:
        raise Failure("--out: only --fuzz writes cases")
    output = Output(json)
    writable_file("--junit", junit)
    subjects = _subjects(cases)
    found = _rows(_entrants(release, source, python), subjects, way, Bar(strict, named=bool(cases)))
    return _answer(output, found, way, strict, junit)


@command.command
def bisect(
    case: CaseName,
    /,
    *,
    connector: Connector = "nixl-pull",
    nixl: NixlKind = "fake",
    deadline: Deadline = CASE_SECONDS,
    json: Json = False,
) -> int:
    """Put one case to all supported releases, from old to new, and name those that changed.

    Exit 0 whatever they do, 3 if none of them covers the case.
    """
    from kvproof.upstream.matrix.history import show_history
    from kvproof.upstream.matrix.rows import Bar
    from kvproof.upstream.running.session import Way
    from kvproof.upstream.targets.entrants import ALL

    output = Output(json)
    subjects = _subjects((case,))
    way = Way(connector, nixl, deadline)
    found = _rows(_entrants((ALL,), None, None), subjects, way, Bar())
    return show_history(output, found, way)


@command.command
def compare(
    base: Side,
    head: Side,
    /,
    *cases: CaseFiles,
    connector: Connector = "nixl-pull",
    nixl: NixlKind = "fake",
    deadline: Deadline = CASE_SECONDS,
    json: Json = False,
) -> int:
    """Put each case to two targets, and tell what the second one changed.

    Exit 1 if anything is worse than before, 3 if something is not covered any more; else 0.
    """
    from kvproof.upstream.matrix.comparison import show_comparison
    from kvproof.upstream.matrix.rows import Bar
    from kvproof.upstream.running.session import Way
    from kvproof.upstream.targets.entrants import side

    output = Output(json)
    subjects = _subjects(cases)
    way = Way(connector, nixl, deadline)
    sides = [side("BASE", base), side("HEAD", head)]
    found = _rows(sides, subjects, way, Bar())
    return show_comparison(output, found[: len(subjects)], found[len(subjects) :], way)


def _search(
    cases: tuple[str, ...],
    targets: tuple[tuple[str, ...], Path | None, Path | None],
    way: Way,
    fuzz: float,
    seed: int,
    out: Path | None,
    strict: bool,
    json: bool,
    junit: Path | None,
) -> int:
    """``--fuzz``."""
    if cases:
        raise Failure("--fuzz makes its own cases: leave them out")
    from kvproof.upstream.fuzzing.report import report_cases, show_search
    from kvproof.upstream.fuzzing.search import fuzz as search

    output = Output(json)
    usable_folder("--out", out)
    writable_file("--junit", junit)
    entrants = _entrants(*targets)
    with _progress() as show:
        report = search(
            [entrant.target for entrant in entrants], fuzz, seed, way, out,
            lambda cases, gone: show(f"{cases} cases, {gone:.0f} s"),
        )  # fmt: skip
    trouble = [Exit.OK]
    if report.unwritten is not None:
        remark(unwritable("--out", Path(report.unwritten.filename or "."), report.unwritten).line)
        trouble.append(Exit.USAGE)
    trouble.append(write_junit(junit, "upstream", report_cases(report, strict)))
    return show_search(output, report, entrants, way, strict=strict, trouble=worst(trouble))


def _subjects(cases: tuple[str, ...]) -> list[Subject]:
    """The cases, all of them read before anything is fetched."""
    from kvproof.upstream.matrix.rows import subject

    return [subject(source) for source in case_sources(cases)]


def _entrants(releases: tuple[str, ...], source: Path | None, python: Path | None) -> list[Entrant]:
    from kvproof.upstream.targets.entrants import entrants

    return entrants(releases, source, python)


def _rows(entrants: Sequence[Entrant], subjects: Sequence[Subject], way: Way, bar: Bar) -> list[Row]:
    from kvproof.upstream.matrix.rows import rows

    with _progress() as show:
        found = rows(entrants, subjects, way, bar, lambda name, done, of: show(f"{name}: {done} of {of} cases"))
        with closing(found):
            return list(found)


def _answer(output: Output, rows: list[Row], way: Way, strict: bool, junit: Path | None) -> int:
    from kvproof.upstream.matrix.telling import (
        NOT_PROVEN,
        blocks,
        conclusion,
        row_data,
        row_report,
        show_matrix,
        uncovered,
    )

    for text, style in blocks(rows, way):
        output.line(text, style)
    show_matrix(output, rows)
    output.line()
    for text, style in conclusion(rows, way):
        output.line(text, style)
    for text in NOT_PROVEN:
        output.line(text, "dim")
    status = worst(row.status for row in rows)
    status = worst((status, write_junit(junit, "upstream", [row_report(row) for row in rows])))
    data: dict[str, Any] = {
        "laws": sorted({law for row in rows for law in row.outcome.laws}),
        "action": "run",
        "connector": way.connector,
        "nixl": way.nixl,
        "strict": strict,
        "rows": [row_data(row, way) for row in rows],
        "not_covered": [{"reason": reason, "rows": len(found)} for reason, found in uncovered(rows).items()],
        "not_proven": list(NOT_PROVEN),
    }
    output.answer("upstream", status, data)
    return status


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Shows a line on standard error, in place of the one before, where somebody can see it."""
    seen = sys.stderr is not None and sys.stderr.isatty()

    def show(text: str) -> None:
        if seen:
            remark(CLEARED + clean(text), raw=True)

    try:
        yield show
    finally:
        if seen:
            remark(CLEARED, raw=True)
