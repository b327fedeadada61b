# SPDX-License-Identifier: Apache-2.0
"""``kvproof transfer``: real bytes, through NIXL, between two processes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec
from cyclopts import Parameter

from kvproof.arrival import corruption_words, differences, prediction, unzeroed_words
from kvproof.exits import WORDS, Exit, worst
from kvproof.failure import Failure
from kvproof.options import CaseFiles, FaultName, Json
from kvproof.output import Output
from kvproof.reference.derive import Derived, derive
from kvproof.reference.export import descriptor_file, synthetic_bases
from kvproof.reference.faults.registry import Fault
from kvproof.reference.rules import Refusal
from kvproof.sources import Source, case_sources, fault_named, read_case
from kvproof.spec.descriptors import DescriptorFile
from kvproof.spec.judge.judge import judge
from kvproof.spec.judge.plan_laws import owed_spans, required_spans
from kvproof.spec.judge.spans import BudgetExceeded
from kvproof.spec.judge.verdict import Judgement
from kvproof.spec.place import Place
from kvproof.spec.plan import Plan
from kvproof.spec.scope import Covered, assess
from kvproof.spec.vocabulary import Case
from kvproof.words import judgement_data, plural

DeviceChoice = Literal["auto", "cpu", "cuda"]
Device = Annotated[DeviceChoice, Parameter(help="cuda: VRAM storages in GPU memory; auto: if there is a GPU.")]
Deadline = Annotated[float, Parameter(help="Seconds that one transfer may take.")]
LimitBytes = Annotated[int, Parameter(help="Most bytes that the storages of a case may hold.")]

SEEDS = 3
"""Patterns to try before a difference between memory and judge counts: bytes may be equal by chance."""

WORDS_SHOWN = 8

NOT_PROVEN = (
    "Shown for these geometries on this machine and this NIXL. What is compared: every byte of every storage of both",
    "sides. What is not tried: several requests at once, failures during a read, other transports.",
)


class Prepared(msgspec.Struct, frozen=True):
    """A case that can be moved: the lists to run, and the other route's view of what they should do."""

    case: Case
    covered: Covered
    program: DescriptorFile
    expected: Plan
    judgement: Judgement
    required: tuple[tuple[Place, Place], ...]
    owed: tuple[Place, ...]


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
    if not (math.isfinite(deadline) and deadline > 0):
        raise Failure(f"--deadline: {deadline} is not a number of seconds above 0")
    if limit_bytes < 1:
        raise Failure(f"--limit-bytes: {limit_bytes} is below 1")
    entries = []
    moved = 0
    with Mover(device, deadline, limit_bytes) as mover:
        for source in case_sources(cases):
            entry = _entry(source, rule, mover)
            entries.append(entry)
            moved += entry.data.get("verified_bytes") or 0
            if "error" in entry.data:
                out.note(f"{source.name}: {entry.data['error']}")
            for text, style in entry.lines:
                out.line(text, style)
    status = worst(entry.status for entry in entries)
    _conclude(out, entries, moved, rule)
    out.answer(
        {
            "format": 1,
            "command": "transfer",
            "verdict": WORDS[status],
            "exit": int(status),
            "laws": sorted({law for entry in entries for law in entry.data["laws"]}),
            "fault": fault,
            "cases": [entry.data for entry in entries],
            "not_proven": list(NOT_PROVEN),
        }
    )
    return status


class Mover:
    """Runs one transfer after another on one pair of processes."""

    def __init__(self, device: DeviceChoice, deadline: float, limit_bytes: int) -> None:
        self._jobs: list[Any] = []
        self._options: dict[str, Any] = {
            "device": device, "deadline_seconds": deadline, "byte_limit": limit_bytes,
        }  # fmt: skip
        self._outcomes: Any = None

    def __enter__(self) -> Mover:
        return self

    def __exit__(self, *_: object) -> None:
        if self._outcomes is not None:
            self._outcomes.close()

    def move(self, prepared: Prepared, seed: int) -> Any:
        """The report of one transfer, or the TransferError that kept it from being one."""
        from kvproof.gpu_impl.errors import DeviceMissing, MissingExtra
        from kvproof.gpu_impl.transfer import Job, run_many

        job = Job(prepared.case, prepared.program, prepared.expected, prepared.required, prepared.owed, seed)
        self._jobs.append(job)
        if self._outcomes is None:
            self._outcomes = run_many(self._waiting(), **self._options)
        try:
            return next(self._outcomes)
        except MissingExtra as error:
            raise Failure(f"{error}: pip install 'kvproof[transfer]'") from None
        except DeviceMissing as error:
            raise Failure(f"--device: {error}") from None

    def _waiting(self) -> Iterator[Any]:
        while self._jobs:
            yield self._jobs.pop()


def _entry(source: Source, rule: Fault | None, mover: Mover) -> Entry:
    try:
        case = read_case(source)
    except Failure as failure:
        return _unusable(source, None, failure.status, "bad-input", failure.words)
    try:
        prepared = _prepare(case, rule)
    except BudgetExceeded as error:
        return _unusable(source, case, Exit.UNKNOWN, "unknown", f"unknown: {error}")
    if isinstance(prepared, Judgement):
        return _skipped(source, case, prepared, rule)
    if prepared is None:
        return _skipped(source, case, None, rule)
    return _moved(source, prepared, rule, mover)


def _prepare(case: Case, rule: Fault | None) -> Prepared | Judgement | None:
    """What to run; or the judgement on a pair that has nothing to run; or None where there is no request."""
    scope = assess(case)
    if not isinstance(scope, Covered):
        return judge(scope)
    if case.request is None:
        return None
    try:
        derived = derive(case) if rule is None else derive(case, rule.rules)
    except Refusal as refusal:
        return Judgement("refused", reason=refusal.reason)
    return Prepared(
        case,
        scope,
        _program(case, derived, rule),
        derived.plan,
        judge(scope, derived.plan, derived.tables),
        tuple(required_spans(scope)),
        tuple(owed_spans(scope)),
    )


def _program(case: Case, derived: Derived, rule: Fault | None) -> DescriptorFile:
    """The lists that NIXL gets: gpu_impl's own, or the faulty rule's."""
    if rule is not None:
        return descriptor_file(case, derived, synthetic_bases(case))
    from kvproof.gpu_impl import tables

    return tables.descriptor_file(case, synthetic_bases(case))


def _skipped(source: Source, case: Case, judgement: Judgement | None, rule: Fault | None) -> Entry:
    """Nothing to move: as the case expects, or not."""
    if judgement is None:
        verdict, reason, status = "no-request", "the case has no [request]", Exit.OK
    else:
        verdict, reason = judgement.verdict, judgement.reason or ""
        by_rule = rule is not None and isinstance(assess(case), Covered)
        expected = case.expect.faults.get(rule.name) if by_rule and rule is not None else case.expect.verdict
        unexpected = Exit.UNKNOWN if verdict == "not-covered" else Exit.BROKEN
        status = Exit.OK if expected == verdict else unexpected
    text = f"skip  {case.name}: {verdict}: {reason}"
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
    from kvproof.gpu_impl.transfer import SPAN_LIMIT

    case = prepared.case
    predicted = prediction(prepared.judgement, prepared.owed, prepared.expected.zeroes)
    found: list[Place] = []
    report: Any = None
    wrong: list[str] = []
    for seed in range(SEEDS):
        again = mover.move(prepared, seed)
        if isinstance(again, TransferTooLarge):
            return _unusable(source, case, Exit.USAGE, "too-large", f"{again} (--limit-bytes raises it)")
        if isinstance(again, TransferError):
            status, outcome = _failure_of(again, rule)
            return _unusable(source, case, status, outcome, str(again))
        report = report or again
        found += [span.place for span in again.corrupt]
        wrong = list(differences(predicted, again, found, SPAN_LIMIT))
        if not wrong:
            break
    return _told(source, prepared, rule, report, wrong)


def _failure_of(error: Exception, rule: Fault | None) -> tuple[Exit, str]:
    from kvproof.gpu_impl.errors import ProgramInvalid, TransferUnfinished, Unsupported

    if isinstance(error, TransferUnfinished):
        return Exit.UNKNOWN, "unfinished"
    if isinstance(error, Unsupported):
        return Exit.UNKNOWN, "not-covered"
    if isinstance(error, ProgramInvalid) and rule is not None:
        return Exit.BROKEN, "refused"
    return Exit.FAULT, "fault"


def _told(source: Source, prepared: Prepared, rule: Fault | None, report: Any, wrong: list[str]) -> Entry:
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
        f"{report.moved_bytes:,} bytes moved, {report.zeroed_bytes:,} zeroed, {report.untouched_bytes:,} untouched, "
        f"{report.verified_bytes:,} verified ({report.device})"
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


NUMBERS = (
    "transfers", "descriptors", "moved_bytes", "zeroed_bytes", "untouched_bytes", "verified_bytes",
    "mismatching_bytes", "corrupt_bytes", "unzeroed_bytes",
)  # fmt: skip


def _conclude(out: Output, entries: list[Entry], verified: int, rule: Fault | None) -> None:
    out.line()
    counts: dict[str, int] = {}
    for entry in entries:
        counts[entry.outcome] = counts.get(entry.outcome, 0) + 1
    tally = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    good = all(entry.status == Exit.OK for entry in entries)
    under = f" under {rule.name} ({rule.title})" if rule is not None else ""
    text = f"{plural(len(entries), 'case')}{under}: {tally}; {verified:,} bytes compared"
    out.line(text, "good" if good else "bad")
    for line in NOT_PROVEN:
        out.line(line, "dim")
