# SPDX-License-Identifier: Apache-2.0
"""``kvproof upstream tests``: vLLM's own geometry tests as a check on kvproof."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from cyclopts import Parameter

from kvproof.exits import Exit
from kvproof.failure import Failure
from kvproof.options import Flag, Json, seconds
from kvproof.output import Output
from kvproof.upstream.targets.releases import CURRENT
from kvproof.words import plural

if TYPE_CHECKING:
    from kvproof.upstream.own_tests.report import TestReport, TestsReport
    from kvproof.upstream.targets.target import Target

Release = Annotated[str | None, Parameter(help=f"The release whose tests are run; {CURRENT}.")]
Source = Annotated[Path | None, Parameter(help="A checkout of vLLM, whose own tests are run, in place of a release.")]
Python = Annotated[Path | None, Parameter(help="A Python, or a virtual environment, with vLLM in it, for the tests.")]
Deadline = Annotated[float, seconds(), Parameter(help="Seconds that all the tests may take.")]
All = Annotated[Flag, Parameter(name="--all", help="Lines for each test and plan, not only for names of tests.")]

NOT_PROVEN = (
    "What is judged is what the tests' calls were captured doing, in memory that the tests made up, or that was made",
    "up for their numbers. Lawful here says nothing of geometries that no test builds.",
)


def command(
    *,
    release: Release = None,
    source: Source = None,
    python: Python = None,
    deadline: Deadline = 900.0,
    every: All = False,
    json: Json = False,
) -> int:
    """Run vLLM's own geometry tests, capture the plans that they pin, and judge those.

    Each must be lawful or wasteful here, or be explained: exit 1 if one is neither. 3 if a test failed by itself.
    """
    from kvproof.upstream.own_tests.run import run_upstream_tests

    output = Output(json)
    target, tests = _target(release, source, python)
    report = run_upstream_tests(target, tests, deadline)
    status = report.status()
    for text, style in _lines(report, every):
        output.line(text, style)
    for text in NOT_PROVEN:
        output.line(text, "dim")
    output.answer("upstream", status, _data(report))
    return status


def _target(release: str | None, source: Path | None, python: Path | None) -> tuple[Target, Path]:
    from kvproof.upstream.targets.environment import environment
    from kvproof.upstream.targets.fetch import fetch_tests
    from kvproof.upstream.targets.target import Target, checked_source, python_target, release_target

    if source is not None and release is not None:
        raise Failure("--release and --source: one of them says what is tested")
    if source is not None:
        tree = checked_source(source)
        own = python_target(python).python if python is not None else environment()
        return Target(f"vllm in {source}", own, tree), tree
    version = release or CURRENT
    tests = fetch_tests(version)
    return (python_target(python) if python is not None else release_target(version)), tests


def _lines(report: TestsReport, every: bool) -> Iterator[tuple[str, str | None]]:
    for test in report.tests:
        if test.alarm:
            yield from _test_lines(test, indent="")
    yield f"{report.target}: {plural(len(report.tests), 'test')} of its own, {report.seconds:.0f} s", "head"
    for name, tests in _by_name(report).items():
        for test in tests if every else ():
            yield from _test_lines(test)
        if not every:
            yield _name_line(name, tests)
    yield "", None
    yield from _totals(report)


def _by_name(report: TestsReport) -> dict[str, list[TestReport]]:
    found: dict[str, list[TestReport]] = {}
    for test in report.tests:
        found.setdefault(_short(test.test).split("[")[0], []).append(test)
    return found


def _short(test: str) -> str:
    return test.split("::", 1)[-1]


def _name_line(name: str, tests: list[TestReport]) -> tuple[str, str | None]:
    counts = Counter(_verdict(test) for test in tests)
    words = ", ".join(what if len(tests) == 1 else f"{count} {what}" for what, count in counts.items())
    return f"  {name}: {words}", "bad" if any(test.alarm for test in tests) else None


def _verdict(test: TestReport) -> str:
    if test.verdict == "not-covered":
        return f"not-covered ({test.reason})"
    if test.verdict == "declined":
        return "declined by the target, as the test wants"
    laws = f" ({', '.join(test.laws)})" if test.laws else ""
    if test.explained:
        return f"explained by {', '.join(test.explained)}: {test.verdict}{laws}"
    return f"{test.verdict}{laws}{' in part' if test.in_part else ''}"


def _test_lines(test: TestReport, indent: str = "  ") -> Iterator[tuple[str, str | None]]:
    yield f"{indent}{_short(test.test)}: {_verdict(test)}", "bad" if test.alarm else None
    for plan in test.plans:
        laws = f" ({', '.join(plan.laws)})" if plan.laws else ""
        yield f"{indent}    {plan.about}: {plan.verdict}{laws}: {plan.words or plan.reason}", None


def _totals(report: TestsReport) -> Iterator[tuple[str, str | None]]:
    totals = report.totals()
    words = ", ".join(f"{count} {what}" for what, count in totals.items())
    yield f"{plural(len(report.tests), 'test')}: {words}", "good" if report.status() is Exit.OK else "bad"
    excused = Counter({f"{why}: {report.because.get(why, '')}": count for why, count in report.excused().items()})
    for head, counted in (("explained (docs/findings/upstream-tests.md)", excused), ("not covered", report.reasons()),
                          ("not covered in tests judged in part", report.left_out())):  # fmt: skip
        if counted:
            yield f"  {head}:", None
            for reason, count in counted.most_common():
                yield f"    {count:4} {reason}", None
    for test in report.tests:
        if test.outcome != "passed":
            yield f"  {_short(test.test)} itself ends as {test.outcome}", "doubt"
    for fault in report.faults:
        yield f"  fault in the plugin: {fault}", "bad"


def _data(report: TestsReport) -> dict[str, Any]:
    return {
        "laws": sorted({law for test in report.tests if test.alarm for law in test.laws}),
        "action": "tests",
        "target": report.target,
        "seconds": round(report.seconds, 1),
        "totals": report.totals(),
        "explained": report.excused(),
        "because": report.because,
        "not_covered": report.reasons(),
        "left_out": report.left_out(),
        "faults": report.faults,
        "tests": [msgspec.to_builtins(test) for test in report.tests],
        "not_proven": list(NOT_PROVEN),
    }
