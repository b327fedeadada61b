# SPDX-License-Identifier: Apache-2.0
"""What a search over generated cases found: ``kvproof upstream --fuzz``."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

import msgspec

from kvproof.exits import Exit, worst
from kvproof.junit import TestCase, outcome_of
from kvproof.output import Output
from kvproof.upstream.fuzzing.search import Finding, FuzzReport, Share
from kvproof.upstream.judging.wording import reach_lines, summary
from kvproof.upstream.running.session import Way
from kvproof.upstream.targets.entrants import Entrant
from kvproof.words import plural

REASONS_SHOWN = 5
NOT_PROVEN = "A search, not a proof: what it did not try, it does not know."


def search_status(report: FuzzReport, strict: bool) -> Exit:
    """Broken if anything but waste was found (``strict``: or waste); unknown if no case came to a plan to be judged."""
    if any("fault" in share.verdicts for share in report.shares):
        return Exit.FAULT
    if any(_counts(finding, strict) for finding in report.findings):
        return Exit.BROKEN
    return Exit.OK if any(share.ran for share in report.shares) else Exit.UNKNOWN


def _counts(finding: Finding, strict: bool) -> bool:
    return strict or finding.key.verdict != "wasteful"


def show_search(
    out: Output, report: FuzzReport, entrants: Sequence[Entrant], way: Way, *, strict: bool, trouble: Exit
) -> Exit:
    """Print it. ``trouble``: what else went wrong on the way."""
    status = worst((search_status(report, strict), trouble))
    options = {entrant.target.label: entrant.option for entrant in entrants}
    for finding in report.findings:
        _show(out, finding, report, options[finding.key.target], way)
    for share in report.shares:
        _show_share(out, share)
    count = len(report.findings)
    kinds = f"{count} kind{'' if count == 1 else 's'} of trouble" if count else "no trouble"
    tried = f"{plural(report.cases, 'case')} in {report.seconds:.1f} s, seed {report.seed}"
    style = {Exit.OK: "good", Exit.UNKNOWN: "doubt"}.get(status, "bad")
    out.line(f"{kinds}; {tried}, {way.connector}, {way.nixl} NIXL", style)
    out.line(NOT_PROVEN, "dim")
    out.answer("upstream", status, _data(report, options, way, strict))
    return status


def report_cases(report: FuzzReport, strict: bool) -> list[TestCase]:
    """The findings as lines of a JUnit report, and one for the search, which passed if it ran and no fault came up."""
    found = [
        TestCase(
            f"{one.key.target} {one.key.cause}",
            "failure" if _counts(one, strict) else None,
            one.outcome.words,
            summary(one.outcome),
        )
        for one in report.findings
    ]
    status = search_status(report, strict)
    outcome = None if status == Exit.BROKEN else outcome_of(status)
    return [*found, TestCase(f"search with seed {report.seed}", outcome, seconds=report.seconds)]


def _show(out: Output, finding: Finding, report: FuzzReport, option: str, way: Way) -> None:
    found, key = finding.outcome, finding.key
    out.line(f"{key.cause}: {found.words or summary(found)}", "bad")
    reached = found.reached
    out.line(f"    {summary(found)} on {key.target}")
    for text in reach_lines(reached) if reached is not None else ():
        out.line(f"    {text}")
    seen = f"seen in {plural(finding.cases, 'case')}, {finding.reachable} of them reachable"
    out.line(f"    {seen}; first after {finding.seconds:.1f} s")
    where = finding.path or "in no file"
    out.line(f"    case {finding.number} of seed {report.seed}, shrunk: {where}")
    if finding.path:
        out.line(f"    again: {_again(finding, option, way)}", "dim")


def _again(finding: Finding, option: str, way: Way) -> str:
    return f"kvproof upstream {option} --connector {way.connector} --nixl {way.nixl} {shlex.quote(finding.path or '-')}"


def _show_share(out: Output, share: Share) -> None:
    counts = ", ".join(f"{count} {verdict}" for verdict, count in share.verdicts.items())
    reaches = ", ".join(f"{count} {reach}" for reach, count in share.reaches.items())
    lost = "; given up after too many crashes" if share.lost else ""
    out.line(f"{share.target}: {plural(share.cases, 'case')}: {counts}; {reaches}{lost}")
    for reason, count in list(share.reasons.items())[:REASONS_SHOWN]:
        out.line(f"    {count} × {reason}", "dim")
    if len(share.reasons) > REASONS_SHOWN:
        out.line(f"    … and {len(share.reasons) - REASONS_SHOWN} more reasons", "dim")


def _data(report: FuzzReport, options: dict[str, str], way: Way, strict: bool) -> dict[str, Any]:
    return {
        "laws": sorted({law for finding in report.findings for law in finding.key.laws}),
        "action": "fuzz",
        "connector": way.connector,
        "nixl": way.nixl,
        "strict": strict,
        "seed": report.seed,
        "seconds": report.seconds,
        "cases": report.cases,
        "shares": msgspec.to_builtins(report.shares),
        "features": report.features,
        "findings": [
            {
                "target": finding.key.target,
                "verdict": finding.key.verdict,
                "laws": list(finding.key.laws),
                "cause": finding.key.cause,
                "words": finding.outcome.words,
                "reached": msgspec.to_builtins(finding.outcome.reached),
                "number": finding.number,
                "cases": finding.cases,
                "reachable": finding.reachable,
                "after_seconds": finding.seconds,
                "file": finding.path,
                "case": finding.case.name,
                "again": _again(finding, options[finding.key.target], way) if finding.path else None,
            }
            for finding in report.findings
        ],
        "not_proven": [NOT_PROVEN],
    }
