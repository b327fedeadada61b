# SPDX-License-Identifier: Apache-2.0
"""Descriptor lists judged: what they move, as a plan, and L4, L7 and L8 of the lists themselves."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate, combinations, pairwise

import msgspec

from kvproof.spec.decode import BadInput
from kvproof.spec.descriptors import DescriptorFile, DescriptorList, Transfer
from kvproof.spec.judge.expand import SPANS_LIMIT, expand_zeroes
from kvproof.spec.judge.riders import Moved
from kvproof.spec.judge.spans import BudgetExceeded
from kvproof.spec.judge.verdict import Finding, Witness
from kvproof.spec.laws.descriptor_ids import distinct, id_in_range, sections_apart
from kvproof.spec.laws.parity import counts_pair, descriptors_pair
from kvproof.spec.place import Place
from kvproof.spec.plan import Copy, Plan
from kvproof.spec.vocabulary import Case, Law
from kvproof.spec.wellformed import storage_addressable
from kvproof.spec.world import storage_id

STEPS_LIMIT = 1_000_000
"""Most storages that all rows together may lie in, each row's counted by itself. Lists of more get no verdict."""


class Side(msgspec.Struct, frozen=True):
    """One prepared list of one worker, with flat ids resolved by bisection."""

    worker: str
    list: DescriptorList
    starts: tuple[int, ...]

    @property
    def total(self) -> int:
        """Descriptors in the list."""
        return self.starts[-1]

    def at(self, descriptor_id: int) -> tuple[int, int]:
        """Address and length of a descriptor whose id is in range."""
        index = bisect_right(self.starts, descriptor_id) - 1
        address, length, _, stride, _ = self.list.rows[index]
        return address + (descriptor_id - self.starts[index]) * stride, length


class Memory:
    """The storages of one worker by address."""

    def __init__(self, case: Case, worker: str, bases: dict[str, int]) -> None:
        storages = {storage.name: storage for w in case.worker if w.name == worker for storage in w.storages}
        self._ranges: list[tuple[int, int, str, str]] = []
        for name, base in bases.items():
            if name not in storages:
                raise BadInput(f"bases.{worker}: the case has no storage {name!r}; it has {', '.join(storages)}")
            storage = storages[name]
            if not storage_addressable(base, storage.bytes):
                raise BadInput(f"bases.{worker}.{name}: {storage.bytes} bytes at {base} pass 2^64 (W5)")
            self._ranges.append((base, base + storage.bytes, storage_id(worker, name), storage.memory))
        self._ranges.sort()
        for first, second in pairwise(self._ranges):
            if second[0] < first[1]:
                raise BadInput(f"bases.{worker}: {first[2]} and {second[2]} share addresses (W12)")

    def find(self, address: int, length: int) -> tuple[Place, str] | None:
        """The place of an address range and its memory kind; None where it lies in no single storage."""
        index = bisect_right(self._ranges, address, key=lambda entry: entry[0]) - 1
        if index < 0 or address + length > self._ranges[index][1]:
            return None
        start, _, name, kind = self._ranges[index]
        return Place(name, address - start, length), kind

    def same_up_to(self, address: int, length: int) -> int | None:
        """Where ``find`` may answer otherwise, if it is asked for ranges further on; None: nowhere."""
        index = bisect_right(self._ranges, address, key=lambda entry: entry[0])
        changes = [self._ranges[index][0]] if index < len(self._ranges) else []
        if index and address + length <= self._ranges[index - 1][1]:
            changes.append(self._ranges[index - 1][1] - length + 1)
        return min(changes, default=None)


class ListsAnswer(msgspec.Struct, frozen=True):
    """What the lists move, pair by pair and as a plan, and what is wrong with the lists themselves."""

    plan: Plan
    moved: list[Moved]
    findings: tuple[Finding, ...]


def read_lists(case: Case, lists: DescriptorFile) -> ListsAnswer:
    """Resolve descriptor lists into a plan. Raises BadInput where they do not fit the case at all."""
    roles = {worker.name: worker.role for worker in case.worker}
    for worker in lists.bases:
        if worker not in roles:
            raise BadInput(f"bases: the case has no worker {worker!r}; it has {', '.join(roles)}")
    memories = {worker: Memory(case, worker, bases) for worker, bases in lists.bases.items()}
    if sum(len(transfer.target_ids) for transfer in lists.transfers) > SPANS_LIMIT:
        raise BadInput(f"the lists have more than {SPANS_LIMIT} target ids, the most that are judged")
    moved: list[Moved] = []
    findings: dict[tuple[Law, bool], Finding] = {}
    steps = iter(range(STEPS_LIMIT))
    for index, transfer in enumerate(lists.transfers):
        for name, role in ((transfer.producer, "producer"), (transfer.consumer, "consumer")):
            if roles.get(name) != role or name not in memories:
                raise BadInput(f"transfers[{index}].{role}: {name!r} is no {role} of the case with bases")
        reader = _TransferReader(transfer, memories[transfer.producer], memories[transfer.consumer], steps)
        moved += reader.moved()
        for finding in reader.findings:
            findings.setdefault((finding.law, finding.corrupting), finding)
    plan = Plan(tuple(one.copy for one in moved), expand_zeroes(case, lists.zeroes))
    return ListsAnswer(plan, moved, tuple(findings.values()))


class _TransferReader:
    """One transfer, pair by pair."""

    def __init__(self, transfer: Transfer, source_memory: Memory, target_memory: Memory, steps: Iterator[int]) -> None:
        self._transfer = transfer
        self._source = _side(transfer.producer, transfer.source)
        self._target = _side(transfer.consumer, transfer.target)
        self._memories = (source_memory, target_memory)
        self._steps = steps
        self.findings: list[Finding] = []

    def moved(self) -> list[Moved]:
        """What it moves; pairs that cannot be resolved are findings instead."""
        sources, targets = self._transfer.source_ids, self._transfer.target_ids
        if not counts_pair(len(sources), len(targets)):
            self._found("parity", f"{len(sources)} source ids are paired with {len(targets)} target ids")
        for side, memory in zip((self._source, self._target), self._memories, strict=True):
            self._check_rows(side, memory)
        self._check_sections()
        seen: dict[int, int] = {}
        for position, target_id in enumerate(targets):
            if not distinct(seen.setdefault(target_id, position), target_id, position, target_id):
                self._found("descriptor-ids", f"{self._target.worker}: descriptor {target_id} is written twice")
        for side, ids in ((self._source, sources), (self._target, targets)):
            for value in ids:
                if not id_in_range(value, 0, side.total):
                    words = f"{side.worker}: id {value} is not below {side.total}, its list's length"
                    self._found("descriptor-ids", words)
        moved = []
        for source_id, target_id in zip(sources, targets, strict=False):
            copy = self._copy(source_id, target_id)
            if copy is not None:
                sections = (self._source.list.sections, self._target.list.sections)
                moved.append(Moved((source_id, target_id), sections, copy))
        return moved

    def _copy(self, source_id: int, target_id: int) -> Copy | None:
        places = []
        for side, memory, value in zip(
            (self._source, self._target), self._memories, (source_id, target_id), strict=True
        ):
            if not id_in_range(value, 0, side.total):
                return None
            address, length = side.at(value)
            found = memory.find(address, length)
            if found is None and length:
                words = f"{side.worker}: descriptor {value}, {length} bytes at {address}, lies in no storage of it"
                witness = Witness(side.worker, "no storage", address, length)
                self.findings.append(Finding("bounds", "plan", words, True, witness))
                return None
            # One of zero length moves nothing, wherever it is.
            place, kind = found or (Place("", 0, 0), side.list.memory)
            places.append((place, kind, side.list.memory))
        (source, source_kind, source_list), (target, target_kind, target_list) = places
        if not descriptors_pair(source.bytes, source_kind, source_list, target.bytes, target_kind, target_list):
            self._found(
                "parity",
                f"source descriptor {source_id} ({source.bytes} bytes of {source_kind}, in a {source_list} list) "
                f"is paired with target descriptor {target_id} "
                f"({target.bytes} bytes of {target_kind}, in a {target_list} list)",
            )
        length = min(source.bytes, target.bytes)
        if not length:
            return None
        return Copy(Place(source.storage, source.offset, length), Place(target.storage, target.offset, length))

    def _check_rows(self, side: Side, memory: Memory) -> None:
        """L4 and L8 of every descriptor, addressed or not: one speaks for all that follow it in the same storage."""
        for number, (address, length, _, stride, count) in enumerate(side.list.rows):
            start: int | None = address
            while start is not None and start < address + max(1, stride) * count:
                if next(self._steps, None) is None:
                    raise BudgetExceeded(f"the rows lie in more than {STEPS_LIMIT} storages, one by one")
                found = memory.find(start, length)
                where = f"{side.worker}: row {number}, {length} bytes at {start},"
                if found is None:
                    self._found("bounds", f"{where} lies in no storage of it")
                elif found[1] != side.list.memory:
                    self._found("parity", f"{where} is {found[1]}, in a list of {side.list.memory}")
                change = memory.same_up_to(start, length)
                start = None if change is None or not stride else address - (address - change) // stride * stride

    def _check_sections(self) -> None:
        for side in (self._source, self._target):
            ranges = list((side.list.sections or {}).items())
            for (name, first), (other, second) in combinations(ranges, 2):
                if not sections_apart(*first, *second):
                    self._found("descriptor-ids", f"{side.worker}: sections {name} and {other} overlap")
            for name, (start, end) in ranges:
                if start > end or end > side.total:
                    self._found(
                        "descriptor-ids", f"{side.worker}: section {name} is [{start}, {end}) of {side.total} ids"
                    )

    def _found(self, law: Law, words: str) -> None:
        self.findings.append(Finding(law, "tables", words))


def _side(worker: str, prepared: DescriptorList) -> Side:
    starts = tuple(accumulate((row[4] for row in prepared.rows), initial=0))
    return Side(worker, prepared, starts)
