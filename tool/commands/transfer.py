# SPDX-License-Identifier: Apache-2.0
"""``kvproof transfer``: real bytes, through NIXL, between two processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from cyclopts import Parameter

from kvproof.arrival import corruption_words, unzeroed_words
from kvproof.exits import Exit, worst
from kvproof.failure import Failure
from kvproof.moving import DeviceChoice, Mover, Prepared, prepare
from kvproof.options import CaseFiles, FaultName, Json, seconds, whole
from kvproof.output import Output
from kvproof.reference.faults.registry import Fault
from kvproof.sources import Source, case_sources, fault_named, read_case
from kvproof.spec.judge.spans import BudgetExceeded
from kvproof.spec.judge.verdict import Judgement
from kvproof.spec.scope import Covered, assess
from kvproof.spec.vocabulary import Case
from kvproof.words import judgement_data, plural, tally

if TYPE_CHECKING:
    from kvproof.gpu_impl.transfer import Report

Device = Annotated[DeviceChoice, Parameter(help="cuda: VRAM storages in GPU memory; auto: if there is a GPU.")]
Deadline = Annotated[float, seconds(), Parameter(help="Seconds that one transfer may take.")]
LimitBytes = Annotated[int, whole(1, 2**48), Parameter(help="Most bytes that the storages of a case may hold.")]

WORDS_SHOWN = 8

NUMBERS = (
    "transfers", "descriptors", "moved_bytes", "zeroed_bytes", "untouched_bytes", "verified_bytes",
    "mismatching_bytes", "corrupt_bytes", "unzeroed_bytes",
)  # fmt: skip
"""Fields of a report that are printed in JSON, too."""

NOT_PROVEN = (
    "Shown for these geometries on this machine and this NIXL. What is compared: every byte of every storage of both",
    "sides. What is not tried: several requests at once, failures during a read, other transports.",
)


class Entry(msgspec.Struct, frozen=True):
    """One file's answer."""

    status: Exit
    outcome: str
    lines: tuple[tuple[str, str | None], ...]
    data: dict[str, Any]


def command(
    *cases: CaseFiles,
    device: Device = "auto",
    fault: FaultName = None,
    deadline: Deadline = 60.0,
    limit_bytes: LimitBytes = 2**30,
    json: Json = False,
) -> int:
    """Move real bytes with NIXL between two processes and verify every byte of both.

    The lawful run executes gpu_impl's own descriptor lists, and memory must end as the reference's plan says. With
    --fault the faulty rule's lists are executed: the corruption found in memory must be the one that the judge
    predicts, and the exit status is 1 if there is any.
    """
    out = Output(json)
    rule = fault_named(fault)
    entries = []
    with Mover(device, deadline, limit_bytes) as mover:
        for source in case_sources(cases):
            entry = _entry(source, rule, mover)
            entries.append(entry)
            if "error" in entry.data:
                out.note(f"{source.name}: {entry.data['error']}")
            for text, style in entry.lines:
                out.line(text, style)
    status = worst(entry.status for entry in entries)
    _conclude(out, entries, rule)
    out.answer(
        "transfer",
        status,
        {
            "laws": sorted({law for entry in entries for law in entry.data["laws"]}),
            "fault": fault,
            "cases": [entry.data for entry in entries],
            "not_proven": list(NOT_PROVEN),
        },
    )
    return status


def _entry(source: Source, rule: Fault | None, mover: Mover) -> Entry:
    try:
        case = read_case(source)
    except Failure as failure:
        return _unusable(source, None, failure.status, "bad-input", failure.words)
    try:
        prepared = prepare(case, rule)
    except BudgetExceeded as error:
        return _unusable(source, case, Exit.UNKNOWN, "unknown", f"unknown: {error}")
    if not isinstance(prepared, Prepared):
        return _skipped(source, case, prepared, rule)
    return _moved(source, prepared, rule, mover)


def _skipped(source: Source, case: Case, judgement: Judgement | None, rule: Fault | None) -> Entry:
    """Nothing to move: as the case expects, or not."""
    if judgement is None:
        verdict, reason, status = "no-request", "the case has no [request]: there is nothing to move", Exit.OK
    else:
        verdict, reason = judgement.verdict, judgement.reason or ""
        if rule is not None and isinstance(assess(case), Covered):  # the rule alone refuses it
            expected: object = case.expect.faults.get(rule.name)
        else:
            expected = case.expect.verdict
        unexpected = Exit.UNKNOWN if verdict == "not-covered" else Exit.BROKEN
        status = Exit.OK if expected == verdict else unexpected
    text = f"skip  {case.name}: {reason if judgement is None else f'{verdict}: {reason}'}"
    data: dict[str, Any] = {
        "file": source.name, "case": case.name, "outcome": "skipped", "exit": int(status), "verdict": verdict,
        "laws": [], "reason": reason,
    }  # fmt: skip
    return Entry(status, "skipped", ((text, "dim" if status == Exit.OK else "bad"),), data)


def _unusable(source: Source, case: Case | None, status: Exit, verdict: str, words: str) -> Entry:
    data: dict[str, Any] = {
        "file": source.name, "case": case.name if case is not None else None, "outcome": verdict, "exit": int(status),
        "verdict": verdict, "laws": [], "error": words,
    }  # fmt: skip
    return Entry(status, verdict, (), data)


def _moved(source: Source, prepared: Prepared, rule: Fault | None, mover: Mover) -> Entry:
    from kvproof.gpu_impl.errors import TransferError, TransferTooLarge

    outcome = mover.move(prepared)
    if isinstance(outcome, TransferTooLarge):
        words = f"{outcome} (--limit-bytes raises it)"
        return _unusable(source, prepared.case, Exit.USAGE, "too-large", words)
    if isinstance(outcome, TransferError):
        status, verdict = _failure_of(outcome, rule)
        return _unusable(source, prepared.case, status, verdict, str(outcome))
    return _told(source, prepared, rule, *outcome)


def _failure_of(error: Exception, rule: Fault | None) -> tuple[Exit, str]:
    from kvproof.gpu_impl.errors import ProgramInvalid, TransferUnfinished, Unsupported

    if isinstance(error, TransferUnfinished):
        return Exit.UNKNOWN, "unfinished"
    if isinstance(error, Unsupported):
        return Exit.UNKNOWN, "not-covered"
    if isinstance(error, ProgramInvalid) and rule is not None:
        return Exit.BROKEN, "refused"
    return Exit.FAULT, "fault"


def _told(source: Source, prepared: Prepared, rule: Fault | None, report: Report, wrong: list[str]) -> Entry:
    case, judgement = prepared.case, prepared.judgement
    told = corruption_words(prepared.covered, report.corrupt)
    told += unzeroed_words(prepared.covered, report.unzeroed)
    if wrong:
        status, outcome = Exit.FAULT, "fault"
    elif told:
        status, outcome = Exit.BROKEN, "corrupt" if report.corrupt else "hazard"
    else:
        status, outcome = Exit.OK, "verified"
    under = f" under {rule.name}" if rule is not None else ""
    numbers = (
        f"{plural(report.moved_bytes, 'byte')} moved, {report.zeroed_bytes:,} zeroed, "
        f"{report.untouched_bytes:,} untouched, {report.verified_bytes:,} verified ({report.device})"
    )
    lines: list[tuple[str, str | None]] = []
    if status == Exit.OK:
        lines.append((f"ok    {case.name}{under}: {numbers}", "good"))
    else:
        first = wrong[0] if wrong else told[0]
        lines.append((f"{'FAULT' if wrong else 'WRONG'} {case.name}: in memory, {first}", "bad"))
        rest = [*wrong[1:], *(told if wrong else told[1:])]
        lines += [(f"        {text}", None) for text in rest[:WORDS_SHOWN]]
        if len(rest) > WORDS_SHOWN:
            lines.append((f"        … and {len(rest) - WORDS_SHOWN} more", None))
        lines.append((f"        {numbers}", None))
        if not wrong:
            wrong_bytes = plural(report.corrupt_bytes, "required byte") + " wrong"
            lines.append((f"        {wrong_bytes}{under}, as the judge predicts", None))
    data = {
        "file": source.name,
        "case": case.name,
        "outcome": outcome,
        "exit": int(status),
        **judgement_data(judgement),
        "predicted": not wrong,
        "problems": wrong,
        "in_memory": told,
        "device": report.device,
        "nixl_version": report.nixl_version,
        **{name: getattr(report, name) for name in NUMBERS},
        "seconds": report.seconds,
    }
    return Entry(status, outcome, tuple(lines), data)


def _conclude(out: Output, entries: list[Entry], rule: Fault | None) -> None:
    out.line()
    good = all(entry.status == Exit.OK for entry in entries)
    under = f" under {rule.name} ({rule.title})" if rule is not None else ""
    outcomes = tally(entry.outcome for entry in entries)
    verified = sum(entry.data.get("verified_bytes", 0) for entry in entries)
    text = f"{plural(len(entries), 'case')}{under}: {outcomes}; {plural(verified, 'byte')} compared"
    out.line(text, "good" if good else "bad")
    if any(entry.outcome != "bad-input" for entry in entries):
        for line in NOT_PROVEN:
            out.line(line, "dim")
