# SPDX-License-Identifier: Apache-2.0
"""Real bytes between two processes: fill memory, read with NIXL, zero, and verify every byte.

The consumer's process reads what the descriptor lists say. What memory should hold afterwards is not taken from them:
the caller gives a plan, the required spans and the owed zeroes, from another route.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from kvproof.gpu_impl.errors import (
    DeviceMissing,
    MissingExtra,
    TransferError,
    TransferUnfinished,
    Unsupported,
)
from kvproof.gpu_impl.jobs import CheckedJob, Job, check_job
from kvproof.gpu_impl.memory import Device, nixl_memory
from kvproof.gpu_impl.messages import (
    Landed,
    PostedTransfer,
    Prepare,
    Prepared,
    Read,
    Release,
    Released,
    Verified,
    VerifyLanded,
    VerifyUnchanged,
)
from kvproof.gpu_impl.processes import ROLES, Pair
from kvproof.gpu_impl.validate import PlacedList
from kvproof.gpu_impl.verify import Wrong, union_bytes
from kvproof.gpu_impl.views import OutOfScope
from kvproof.spec.descriptors import DescriptorFile
from kvproof.spec.place import Place
from kvproof.spec.plan import Plan
from kvproof.spec.vocabulary import Case, Role

DeviceChoice = Literal["auto", "cpu", "cuda"]
BYTE_LIMIT = 2**30
START_SECONDS = 60.0
SPAN_LIMIT = 100
"""Spans of one sort that a report lists; it counts all of them."""

T = TypeVar("T")


class Corrupt(msgspec.Struct, frozen=True):
    """Required bytes of the consumer that are not the producer's.

    ``expected`` is where the first of them should have come from; ``found`` where it did come from, if that can be
    told (the consumer's own storage: never written); ``zero`` if all of them are zero.
    """

    place: Place
    expected: Place | None
    found: Place | None
    zero: bool


class Report(msgspec.Struct, frozen=True):
    """What a transfer did, and what was found in memory afterwards.

    ``moved_bytes``, ``zeroed_bytes`` and ``untouched_bytes`` are what the expected plan makes of the consumer's memory;
    ``verified_bytes`` are the compared bytes of both sides. ``mismatches`` (on either side), ``corrupt`` and
    ``unzeroed`` list the first ``SPAN_LIMIT`` spans each, beside the bytes of all of them. ``seconds`` are by phase.
    """

    case: str
    device: Device
    nixl_version: str
    transfers: int
    descriptors: int
    moved_bytes: int
    zeroed_bytes: int
    untouched_bytes: int
    verified_bytes: int
    mismatches: tuple[Place, ...]
    mismatching_bytes: int
    corrupt: tuple[Corrupt, ...]
    corrupt_bytes: int
    unzeroed: tuple[Place, ...]
    unzeroed_bytes: int
    seconds: dict[str, float]

    @property
    def ok(self) -> bool:
        """Every byte of both sides is what it should be."""
        return not (self.mismatches or self.corrupt or self.unzeroed)


def run(
    case: Case,
    program: DescriptorFile,
    expected: Plan,
    required: Sequence[tuple[Place, Place]] = (),
    owed: Sequence[Place] = (),
    *,
    device: DeviceChoice = "auto",
    deadline_seconds: float,
    start_seconds: float = START_SECONDS,
    byte_limit: int = BYTE_LIMIT,
    seed: int = 0,
) -> Report:
    """Run one transfer in two fresh processes. Raises a ``TransferError`` if there is nothing to report."""
    [outcome] = run_many(
        [Job(case, program, expected, required, owed, seed)],
        device=device,
        deadline_seconds=deadline_seconds,
        start_seconds=start_seconds,
        byte_limit=byte_limit,
    )
    if isinstance(outcome, TransferError):
        raise outcome
    return outcome


def run_many(
    jobs: Iterable[Job],
    *,
    device: DeviceChoice = "auto",
    deadline_seconds: float,
    start_seconds: float = START_SECONDS,
    byte_limit: int = BYTE_LIMIT,
) -> Iterator[Report | TransferError]:
    """Run transfers one after the other, and yield what became of each.

    One pair of processes serves all; after a failure the next job gets a fresh pair. The deadline is for each job;
    starting a pair, mostly imports, has a time limit of its own. Only ``MissingExtra`` and ``DeviceMissing`` are
    raised: they would meet every job. The processes end with the iterator, or with the parent.
    """
    for package in ("torch", "nixl"):
        if importlib.util.find_spec(package) is None:
            raise MissingExtra(f"there is no package {package}")
    pair: Pair | None = None
    try:
        for job in jobs:
            try:
                checked = check_job(job, byte_limit)
                started = time.monotonic()
                if pair is None:
                    pair = Pair(device, started + start_seconds)
                    if device == "cuda" and not pair.cuda:
                        raise DeviceMissing("torch finds no CUDA device here")
                outcome: Report | TransferError = _Run(pair, checked, device, started, deadline_seconds).report()
            except (MissingExtra, DeviceMissing):
                raise
            except OutOfScope as error:
                outcome = Unsupported(str(error))
            except TransferError as error:
                outcome = error
                if pair is not None and isinstance(error, TransferUnfinished):
                    pair.kill()
                    pair = None
            yield outcome
    finally:
        if pair is not None:
            pair.close()


class _Run:
    """One job on a pair of processes."""

    def __init__(
        self, pair: Pair, checked: CheckedJob, device: DeviceChoice, started: float, deadline_seconds: float
    ) -> None:
        self.pair = pair
        self.checked = checked
        self.device: Device = "cuda" if pair.cuda and device != "cpu" else "cpu"
        self.seconds: dict[str, float] = {}
        self._mark = started
        self._lap("start")
        self.until = self._mark + deadline_seconds

    def report(self) -> Report:
        """Do everything, and tell."""
        checked = self.checked
        requests: dict[Role, object] = {
            role: Prepare(checked.allocations[role], self.device, checked.job.seed) for role in ROLES
        }
        ready = self.pair.ask(requests, self.until, "filling and registering memory")
        source, target = _as(Prepared, ready["producer"]), _as(Prepared, ready["consumer"])
        self._lap("register")

        transfers = self._posted(source.addresses, target.addresses)
        left = self.until - time.monotonic()
        read = Read(source.metadata, transfers, checked.program.zeroes, left)
        landed = _as(Landed, self.pair.ask({"consumer": read}, self.until, "reading")["consumer"])
        self.seconds |= {"prepare": landed.prepare, "read": landed.read, "zero": landed.zero}
        self._mark = time.monotonic()

        sizes = {each.number: each.bytes for role in ROLES for each in checked.allocations[role]}
        verify: dict[Role, object] = {
            "producer": VerifyUnchanged(SPAN_LIMIT),
            "consumer": VerifyLanded(sizes, checked.copies, checked.zeroes, checked.required, checked.owed, SPAN_LIMIT),
        }
        verified = self.pair.ask(verify, self.until, "verifying")
        self._lap("verify")
        # The consumer lets go first: the producer must still answer.
        for role in reversed(ROLES):
            _as(Released, self.pair.ask({role: Release()}, self.until, "releasing memory")[role])
        self._lap("release")
        return self._report(_as(Verified, verified["producer"]), _as(Verified, verified["consumer"]), transfers)

    def _posted(self, source: Sequence[int], target: Sequence[int]) -> tuple[PostedTransfer, ...]:
        """The program at real addresses. A transfer without ids has nothing to post."""
        return tuple(
            PostedTransfer(
                nixl_memory(each.source.memory, self.device),
                _rows(each.source, source),
                each.source_ids,
                nixl_memory(each.target.memory, self.device),
                _rows(each.target, target),
                each.target_ids,
            )
            for each in self.checked.program.transfers
            if len(each.target_ids)
        )

    def _report(self, producer: Verified, consumer: Verified, transfers: tuple[PostedTransfer, ...]) -> Report:
        checked = self.checked
        total = {role: sum(each.bytes for each in checked.allocations[role]) for role in ROLES}
        zeroed = union_bytes(checked.zeroes)
        touched = union_bytes(np.concatenate([checked.copies[:, 2:], checked.zeroes]))
        mismatches = producer.planned.spans + consumer.planned.spans
        return Report(
            case=checked.job.case.name,
            device=self.device,
            nixl_version=self.pair.version,
            transfers=len(transfers),
            descriptors=sum(len(each.target_ids) for each in transfers),
            moved_bytes=touched - zeroed,
            zeroed_bytes=zeroed,
            untouched_bytes=total["consumer"] - touched,
            verified_bytes=total["producer"] + total["consumer"],
            mismatches=tuple(self._place(span) for span in mismatches[:SPAN_LIMIT]),
            mismatching_bytes=producer.planned.bytes + consumer.planned.bytes,
            corrupt=tuple(self._corrupt(span) for span in consumer.arrived.spans),
            corrupt_bytes=consumer.arrived.bytes,
            unzeroed=tuple(self._place(span) for span in consumer.zeroed.spans),
            unzeroed_bytes=consumer.zeroed.bytes,
            seconds=self.seconds,
        )

    def _place(self, span: Wrong) -> Place:
        return Place(self.checked.names[span.storage], span.offset, span.bytes)

    def _corrupt(self, span: Wrong) -> Corrupt:
        expected, found = (
            None if start is None else Place(self.checked.names[start[0]], start[1], span.bytes)
            for start in (span.expected, span.found)
        )
        return Corrupt(self._place(span), expected, found, span.zero)

    def _lap(self, phase: str) -> None:
        now = time.monotonic()
        self.seconds[phase] = now - self._mark
        self._mark = now


def _rows(given: PlacedList, addresses: Sequence[int]) -> NDArray[np.uint64]:
    lines = [(addresses[row.storage] + row.offset, row.bytes, 0, row.stride, row.count) for row in given.rows]
    return np.array(lines, dtype=np.uint64).reshape(len(lines), 5)


def _as(kind: type[T], answer: object) -> T:
    """The answer, if it is of the kind that was asked for."""
    if isinstance(answer, kind):
        return answer
    raise TransferUnfinished(f"a process answered {type(answer).__name__} instead of {kind.__name__}")
