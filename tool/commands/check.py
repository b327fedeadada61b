# SPDX-License-Identifier: Apache-2.0
"""``kvproof check``: are the cases as they should be?"""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic
from typing import Any

import msgspec

from kvproof.checking import Checked, FaultRun, check_case, run_fault
from kvproof.exits import WORDS, Exit, exit_of, worst
from kvproof.failure import Failure
from kvproof.junit import TestCase, outcome_of, write_junit
from kvproof.options import CaseFiles, FaultName, Json, Junit
from kvproof.output import Output
from kvproof.places import writable_file
from kvproof.reference.faults.registry import Fault
from kvproof.sources import Source, case_sources, fault_named, read_case
from kvproof.spec.scope import assess
from kvproof.spec.vocabulary import Case
from kvproof.words import (
    NOT_PROVEN_BY_CHECK,
    headline,
    judgement_data,
    main_finding,
    other_findings,
    plural,
    summary,
    tally,
    witness_words,
)


class Entry(msgspec.Struct, frozen=True):
    """One file's answer, in every form that it is shown in."""

    source: Source
    status: Exit
    lines: tuple[tuple[str, str | None], ...]
    data: dict[str, Any]
    junit: TestCase
    verdict: str


def command(*cases: CaseFiles, fault: FaultName = None, json: Json = False, junit: Junit = None) -> int:
    """Judge cases by two independent routes and hold them against what they expect.

    For each case: derives the reference's plan and tables and gpu_impl's, judges them, compares them with each other
    and with the case's `expect`, then runs every faulty rule that `expect.faults` lists. With --fault, shows what that
    rule does to the cases instead (exit 1 unless lawful).
    """
    out = Output(json)
    rule = fault_named(fault)
    writable_file("--junit", junit)
    entries = []
    for source in case_sources(cases):
        entry = _entry(source, rule)
        entries.append(entry)
        if entry.verdict == "bad-input":
            out.note(f"{source.name}: {entry.data['error']}")
        for text, style in entry.lines:
            out.line(text, style)
    status = worst(entry.status for entry in entries)
    _conclude(out, entries, rule)
    status = worst((status, write_junit(junit, "check", [entry.junit for entry in entries])))
    out.answer(
        "check",
        status,
        {
            "laws": sorted({law for entry in entries for law in entry.data["laws"]}),
            "fault": fault,
            "cases": [entry.data for entry in entries],
            "not_proven": list(NOT_PROVEN_BY_CHECK),
        },
    )
    return status


def _conclude(out: Output, entries: list[Entry], rule: Fault | None) -> None:
    out.line()
    verdicts = tally(entry.verdict for entry in entries)
    if rule is not None:
        out.line(f"{plural(len(entries), 'case')} under {rule.name} ({rule.title}): {verdicts}")
    else:
        good = sum(entry.status == Exit.OK for entry in entries)
        runs = sum(len(entry.data.get("faults", ())) for entry in entries)
        text = f"{plural(len(entries), 'case')}: {good} as expected, {len(entries) - good} not ({verdicts})"
        out.line(f"{text}; {plural(runs, 'run')} of faulty rules", "good" if good == len(entries) else "bad")
    if any(entry.verdict != "bad-input" for entry in entries):
        for text in NOT_PROVEN_BY_CHECK:
            out.line(text, "dim")


def _entry(source: Source, rule: Fault | None) -> Entry:
    started = monotonic()
    try:
        case = read_case(source)
    except Failure as failure:
        data = {"file": source.name, "verdict": "bad-input", "exit": int(failure.status), "laws": []}
        report = TestCase(source.name, "error", failure.words)
        return Entry(source, failure.status, (), {**data, "error": failure.words}, report, "bad-input")
    if rule is not None:
        run = run_fault(case, assess(case), rule)
        return _fault_entry(source, case, run, monotonic() - started)
    return _case_entry(source, check_case(case), monotonic() - started)


def _case_entry(source: Source, checked: Checked, seconds: float) -> Entry:
    case, judgement, status = checked.case, checked.judgement, checked.status
    verdict = judgement.verdict if judgement is not None else "unknown"
    problems = [*checked.problems, *(problem for run in checked.faults for problem in run.problems)]
    lines: list[tuple[str, str | None]] = []
    if status == Exit.OK:
        lines.append((f"ok    {case.name}: {_passed_words(checked)}", "good"))
    else:
        lines.append((f"FAIL  {case.name}: {problems[0].words}", "bad"))
        lines += [(f"        {problem.words}", None) for problem in problems[1:]]
        if judgement is not None:
            lines.append((f"        {summary(judgement)}; {source.name}", "dim"))
            lines += [(f"        {text}", None) for text in other_findings(judgement)]
            lines += _fault_lines(checked)
    data = {
        "file": source.name,
        "case": case.name,
        "title": case.title,
        "outcome": WORDS[status],
        "exit": int(status),
        **(judgement_data(judgement) if judgement is not None else {"verdict": verdict, "laws": []}),
        "problems": [problem.words for problem in problems],
        "faults": [_run_data(run) for run in checked.faults],
    }
    words = "; ".join(problem.words for problem in problems)
    report = TestCase(case.name, outcome_of(status), words, "\n".join(text for text, _ in lines), seconds)
    return Entry(source, status, tuple(lines), data, report, verdict)


def _passed_words(checked: Checked) -> str:
    judgement = checked.judgement
    assert judgement is not None, "a case without an answer did not pass"
    text = summary(judgement)
    if judgement.reason:
        text += f": {judgement.reason}"
    runs = [f"{run.fault} {_run_words(run)}" for run in checked.faults]
    return text + (f" | {', '.join(runs)}" if runs else "")


def _run_words(run: FaultRun) -> str:
    return run.judgement.verdict if run.judgement is not None else "unknown"


def _fault_lines(checked: Checked) -> Iterator[tuple[str, str | None]]:
    """What the faulty rules did whose outcome is not the expected one."""
    for run in checked.faults:
        if run.problems and run.judgement is not None and run.judgement.findings:
            yield f"        {run.fault}: {headline(run.judgement)}", None
            for text in other_findings(run.judgement):
                yield f"        {run.fault}: {text}", None


def _fault_entry(source: Source, case: Case, run: FaultRun, seconds: float) -> Entry:
    judgement, name = run.judgement, case.name
    lines: list[tuple[str, str | None]] = []
    if judgement is None:
        status, verdict = Exit.UNKNOWN, "unknown"
        words = run.problems[0].words
        lines.append((f"{name}: {words}", "doubt"))
    else:
        status, verdict = exit_of(judgement.verdict, strict=True), judgement.verdict
        words = headline(judgement)
        if status == Exit.OK:
            lines.append((f"{name}: lawful under {run.fault}{_tables_only(case)}", "good"))
        else:
            lines.append((f"{name}: {words}", "bad" if status == Exit.BROKEN else "doubt"))
            lines.append((f"    {summary(judgement)} under {run.fault}{_tables_only(case)}{_as_expected(run)}", None))
            finding = main_finding(judgement)
            if finding is not None and finding.witness is not None:
                lines.append((f"    {witness_words(finding)}", None))
            lines += [(f"    {text}", None) for text in other_findings(judgement)]
        lines += [(f"    {problem.words}", "doubt") for problem in run.problems]
    data = {
        "file": source.name, "case": name, "title": case.title, "outcome": WORDS[status], "exit": int(status),
        **_run_data(run),
    }  # fmt: skip
    report = TestCase(name, outcome_of(status), words, "\n".join(text for text, _ in lines), seconds)
    return Entry(source, status, tuple(lines), data, report, verdict)


def _tables_only(case: Case) -> str:
    """Without a request nothing moves, and the laws about moves have nothing to say."""
    return "" if case.request is not None else " (no [request]: only the laws about tables apply)"


def _as_expected(run: FaultRun) -> str:
    if run.expected is None:
        return ""
    return ", not as the case expects" if run.problems else ", as the case expects"


def _run_data(run: FaultRun) -> dict[str, Any]:
    judged = judgement_data(run.judgement) if run.judgement is not None else {"verdict": "unknown", "laws": []}
    expected = list(run.expected) if isinstance(run.expected, tuple) else run.expected
    return {
        "fault": run.fault, **judged, "expected": expected, "problems": [problem.words for problem in run.problems],
    }  # fmt: skip
