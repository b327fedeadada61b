# SPDX-License-Identifier: Apache-2.0
"""A transfer to run, and the checks that come before any memory is made for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from kvproof.gpu_impl.errors import PlanInvalid, TransferTooLarge
from kvproof.gpu_impl.memory import Allocation
from kvproof.gpu_impl.pattern import STORAGE_LIMIT
from kvproof.gpu_impl.processes import ROLES
from kvproof.gpu_impl.validate import Program, check_program
from kvproof.gpu_impl.views import Ints, only_worker
from kvproof.spec.descriptors import DescriptorFile
from kvproof.spec.place import Place
from kvproof.spec.plan import Plan
from kvproof.spec.vocabulary import Case, Role


class Job(msgspec.Struct, frozen=True):
    """One transfer to run and what it is verified against.

    ``expected`` is what memory is compared with, byte for byte. ``required`` lists (source, target) spans of required
    cells, ``owed`` the pages that end zero. ``seed`` varies the pattern.
    """

    case: Case
    program: DescriptorFile
    expected: Plan
    required: Sequence[tuple[Place, Place]] = ()
    owed: Sequence[Place] = ()
    seed: int = 0


class CheckedJob(msgspec.Struct, frozen=True):
    """A job whose every number is known to fit."""

    job: Job
    program: Program
    allocations: dict[Role, tuple[Allocation, ...]]
    names: tuple[str, ...]
    copies: Ints
    zeroes: Ints
    required: Ints
    owed: Ints


def check_job(job: Job, byte_limit: int) -> CheckedJob:
    """Check sizes, descriptor lists and places; a ``TransferError`` or ``OutOfScope`` names what does not fit."""
    workers = {role: only_worker(job.case, role) for role in ROLES}
    total = sum(storage.bytes for worker in workers.values() for storage in worker.storages)
    if total > byte_limit:
        raise TransferTooLarge(f"the storages of {job.case.name} hold {total} bytes; the limit is {byte_limit}")
    allocations: dict[Role, tuple[Allocation, ...]] = {}
    names: list[str] = []
    for role, worker in workers.items():
        first = len(names)
        allocations[role] = tuple(
            Allocation(first + index, storage.bytes, storage.memory) for index, storage in enumerate(worker.storages)
        )
        names += [f"{worker.name}/{storage.name}" for storage in worker.storages]
    if len(names) > STORAGE_LIMIT:
        raise TransferTooLarge(f"{len(names)} storages; the limit is {STORAGE_LIMIT}")
    places = _Places(names, allocations)
    return CheckedJob(
        job,
        check_program(job.case, job.program),
        allocations,
        tuple(names),
        places.pairs("copy", [(copy.source, copy.target) for copy in job.expected.copies]),
        places.spans("zero", job.expected.zeroes),
        places.pairs("required", job.required),
        places.spans("owed", job.owed),
    )


class _Places:
    """Turns places into arrays of numbers, checking that they fit their storage and lie on the right side."""

    def __init__(self, names: list[str], allocations: dict[Role, tuple[Allocation, ...]]) -> None:
        self._sides: dict[Role, dict[str, Allocation]] = {
            role: {names[each.number]: each for each in mine} for role, mine in allocations.items()
        }

    def pairs(self, what: str, pairs: Iterable[tuple[Place, Place]]) -> Ints:
        """Shape ``[pairs, 5]``: source storage and offset, target storage and offset, bytes."""
        lines = []
        for number, (source, target) in enumerate(pairs):
            if source.bytes != target.bytes:
                raise PlanInvalid(f"{what} {number}: {source.bytes} bytes go to {target.bytes}")
            start, end = self._number(what, number, "producer", source), self._number(what, number, "consumer", target)
            lines.append((start, source.offset, end, target.offset, target.bytes))
        return np.array(lines, dtype=np.int64).reshape(len(lines), 5)

    def spans(self, what: str, places: Iterable[Place]) -> Ints:
        """Shape ``[places, 3]``: storage, offset, bytes."""
        lines = [
            (self._number(what, number, "consumer", place), place.offset, place.bytes)
            for number, place in enumerate(places)
        ]
        return np.array(lines, dtype=np.int64).reshape(len(lines), 3)

    def _number(self, what: str, number: int, role: Role, place: Place) -> int:
        allocation = self._sides[role].get(place.storage)
        if allocation is None:
            raise PlanInvalid(f"{what} {number}: {place.storage} is no storage of the {role}")
        if place.offset < 0 or place.bytes < 1 or place.offset + place.bytes > allocation.bytes:
            raise PlanInvalid(
                f"{what} {number}: [{place.offset}, {place.offset + place.bytes}) is not inside {place.storage}, "
                f"which has {allocation.bytes} bytes"
            )
        return allocation.number
