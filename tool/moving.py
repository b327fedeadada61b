# SPDX-License-Identifier: Apache-2.0
"""One case moved: what to run, the processes that run it, and memory held against what the judge predicts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from kvproof.arrival import differences, prediction
from kvproof.failure import Failure
from kvproof.interrupts import Held
from kvproof.reference.derive import Derived, derive
from kvproof.reference.export import descriptor_file, synthetic_bases
from kvproof.reference.faults.registry import Fault
from kvproof.reference.rules import Refusal
from kvproof.spec.descriptors import DescriptorFile
from kvproof.spec.judge.judge import judge
from kvproof.spec.judge.plan_laws import owed_spans, required_spans
from kvproof.spec.judge.verdict import Judgement
from kvproof.spec.place import Place
from kvproof.spec.plan import Plan
from kvproof.spec.scope import Covered, assess
from kvproof.spec.vocabulary import Case
from kvproof.words import plural

if TYPE_CHECKING:
    from kvproof.gpu_impl.errors import TransferError
    from kvproof.gpu_impl.jobs import Job
    from kvproof.gpu_impl.transfer import Report

DeviceChoice = Literal["auto", "cpu", "cuda"]

SEEDS = 3
"""Patterns to try before a difference between memory and judge counts: bytes may be equal by chance."""


class Prepared(msgspec.Struct, frozen=True):
    """A case that can be moved: the lists to run, and the other route's view of what they should do."""

    case: Case
    covered: Covered
    program: DescriptorFile
    expected: Plan
    judgement: Judgement
    required: tuple[tuple[Place, Place], ...]
    owed: tuple[Place, ...]


def prepare(case: Case, rule: Fault | None) -> Prepared | Judgement | None:
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
    with Held():
        from kvproof.gpu_impl import tables

    return tables.descriptor_file(case, synthetic_bases(case))


def free_memory() -> int:
    """Bytes of memory that can be had; a great many where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return 2**63
    kibibytes = [int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return kibibytes[0] * 1024 if kibibytes else 2**63


class Mover:
    """Runs one transfer after another on one pair of processes."""

    def __init__(self, device: DeviceChoice, deadline: float, limit_bytes: int) -> None:
        self._jobs: list[Job] = []
        self._options: dict[str, Any] = {
            "device": device, "deadline_seconds": deadline, "byte_limit": limit_bytes,
        }  # fmt: skip
        self._outcomes: Any = None

    def __enter__(self) -> Mover:
        return self

    def __exit__(self, *_: object) -> None:
        if self._outcomes is not None:
            self._outcomes.close()

    def move(self, prepared: Prepared) -> tuple[Report, list[str]] | TransferError:
        """The first report, and where memory is not as predicted under any pattern; or what kept it from being one."""
        from kvproof.gpu_impl.errors import TransferError, TransferUnfinished

        needed = sum(storage.bytes for worker in prepared.case.worker for storage in worker.storages)
        free = free_memory()
        if self._options["device"] != "cuda" and needed <= self._options["byte_limit"] and free < needed:
            words = (
                f"the storages hold {plural(needed, 'byte')}, this machine has {plural(free, 'byte')} of free memory"
            )
            return TransferUnfinished(words)
        predicted = prediction(prepared.judgement, prepared.owed, prepared.expected.zeroes)
        first: Report | None = None
        found: list[Place] = []
        wrong: list[str] = []
        for seed in range(SEEDS):
            report = self._run(prepared, seed)
            if isinstance(report, TransferError):
                return report
            first = first or report
            found += [span.place for span in report.corrupt]
            wrong = list(differences(predicted, report, found))
            if not wrong:
                break
        assert first is not None, "there is a first pattern"
        return first, wrong

    def _run(self, prepared: Prepared, seed: int) -> Report | TransferError:
        with Held():
            from kvproof.gpu_impl.errors import DeviceMissing, MissingExtra
            from kvproof.gpu_impl.jobs import Job
            from kvproof.gpu_impl.transfer import run_many

        job = Job(prepared.case, prepared.program, prepared.expected, prepared.required, prepared.owed, seed)
        self._jobs.append(job)
        if self._outcomes is None:
            self._outcomes = run_many(self._waiting(), **self._options)
        try:
            outcome: Report | TransferError = next(self._outcomes)
        except MissingExtra as error:
            raise Failure(f"{error}: pip install 'kvproof[transfer]'") from None
        except DeviceMissing as error:
            raise Failure(f"--device: {error}") from None
        return outcome

    def _waiting(self) -> Iterator[Job]:
        while self._jobs:
            yield self._jobs.pop()
