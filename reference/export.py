# SPDX-License-Identifier: Apache-2.0
"""The reference's plan and tables in the exchange formats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import TypeVar

from kvproof.reference.derive import Derived
from kvproof.reference.ids import resolve, starts
from kvproof.reference.side import side_of, storage_id
from kvproof.spec.descriptors import DescriptorFile, DescriptorList, Range, Row, Transfer
from kvproof.spec.place import Place, StorageId
from kvproof.spec.plan import Copy, CopyRun, Plan, PlanFile, ZeroRun
from kvproof.spec.tables import Region, Section
from kvproof.spec.vocabulary import Case, Memory, Worker

Span = TypeVar("Span", Copy, Place)
Step = tuple[int, ...]
"""Bytes from one span to the next, in each place."""

Bases = dict[str, dict[str, int]]
"""Worker, storage: the address of its first byte."""

PAGE = 4096
FIRST_BASE = 2**32
DEVICE = 0


def plan_file(case: Case, plan: Plan) -> PlanFile:
    """The plan in its file format: the same spans in the same order, equal steps merged into runs."""
    names = storage_names(case)
    return PlanFile(
        format=1,
        case=case.name,
        copies=tuple(copy_run(names, run) for run in runs(plan.copies, copy_step)),
        zeroes=zero_runs(case, plan.zeroes),
    )


def descriptor_file(case: Case, derived: Derived, bases: Bases) -> DescriptorFile:
    """The descriptor lists: one transfer for each pair of memory kinds that has a pair of ids.

    A list holds all rows of its memory kind in the order of the expanded table, and ids count through that list.
    """
    source, target = side_of(case, "producer").worker, side_of(case, "consumer").worker
    sources, targets = Numbering(derived.tables.source), Numbering(derived.tables.target)
    pairs: dict[tuple[Memory, Memory], list[tuple[int, int]]] = {}
    for first, second in zip(derived.tables.source_ids, derived.tables.target_ids, strict=True):
        (source_memory, source_id), (target_memory, target_id) = sources.split(first), targets.split(second)
        pairs.setdefault((source_memory, target_memory), []).append((source_id, target_id))
    return DescriptorFile(
        format=1,
        case=case.name,
        bases=bases,
        transfers=tuple(
            Transfer(
                producer=source.name,
                consumer=target.name,
                source=descriptor_list(source, derived.tables.source, source_memory, bases),
                target=descriptor_list(target, derived.tables.target, target_memory, bases),
                source_ids=tuple(first for first, _ in found),
                target_ids=tuple(second for _, second in found),
            )
            for (source_memory, target_memory), found in pairs.items()
        ),
        zeroes=zero_runs(case, derived.plan.zeroes),
    )


def synthetic_bases(case: Case) -> Bases:
    """Addresses for the storages of a case: page-aligned, apart from each other, the same each time."""
    bases: Bases = {worker.name: {} for worker in case.worker}
    address = FIRST_BASE
    for worker in case.worker:
        for storage in worker.storages:
            bases[worker.name][storage.name] = address
            address += (storage.bytes // PAGE + 2) * PAGE
    return bases


def descriptor_list(worker: Worker, regions: Iterable[Region], memory: Memory, bases: Bases) -> DescriptorList:
    """The rows of one memory kind, and the half-open ranges of ids that its sections take."""
    addresses = {storage_id(worker, name): base for name, base in bases[worker.name].items()}
    chosen = [region for region in regions if region.memory == memory]
    return DescriptorList(
        memory=memory, rows=tuple(row(region, addresses) for region in chosen), sections=sections(chosen)
    )


def row(region: Region, addresses: dict[StorageId, int]) -> Row:
    """Address, bytes, device, stride, count."""
    return addresses[region.storage] + region.offset, region.bytes, DEVICE, region.stride, region.pages


def sections(regions: list[Region]) -> dict[Section, Range]:
    """Section: its ids ``[start, end)`` in a list of these regions. Only sections that have a region."""
    found: dict[Section, Range] = {}
    start = 0
    for section, members in groupby(regions, key=lambda region: region.section):
        end = start + sum(region.pages for region in members)
        found[section] = (start, end)
        start = end
    return found


class Numbering:
    """Ids of an expanded table, and the ids of the same descriptors in the lists of one memory kind each."""

    def __init__(self, regions: tuple[Region, ...]) -> None:
        self.starts = starts(regions)
        self.memories: list[Memory] = ["VRAM" if region.memory == "VRAM" else "DRAM" for region in regions]
        counts: dict[Memory, int] = {"VRAM": 0, "DRAM": 0}
        self.own_starts: list[int] = []
        for region, memory in zip(regions, self.memories, strict=True):
            self.own_starts.append(counts[memory])
            counts[memory] += region.pages

    def split(self, descriptor: int) -> tuple[Memory, int]:
        """Memory kind of a descriptor, and its id in the list of that kind."""
        region, page = resolve(self.starts, descriptor)
        return self.memories[region], self.own_starts[region] + page


def storage_names(case: Case) -> dict[StorageId, tuple[str, str]]:
    """Storage id: worker, storage."""
    return {
        storage_id(worker, storage.name): (worker.name, storage.name)
        for worker in case.worker
        for storage in worker.storages
    }


def runs(spans: Iterable[Span], step_of: Callable[[Span, Span], Step | None]) -> Iterator[tuple[list[Span], Step]]:
    """Consecutive spans with equal steps, and that step (of a single span: none). As long as possible, from the first.

    ``step_of`` is None where two spans cannot stand in one run.
    """
    run: list[Span] = []
    step: Step = ()
    for span in spans:
        found = step_of(run[-1], span) if run else None
        if found is not None and (len(run) == 1 or found == step):
            step = found
        else:
            if run:
                yield run, step
            run, step = [], ()
        run.append(span)
    if run:
        yield run, step


def place_step(first: Place, second: Place) -> Step | None:
    """Bytes from one place to another of equal length, further on in the same storage."""
    step = second.offset - first.offset
    if first.storage != second.storage or first.bytes != second.bytes or step < 0:
        return None
    return (step,)


def copy_step(first: Copy, second: Copy) -> Step | None:
    """The steps of source and target."""
    source, target = place_step(first.source, second.source), place_step(first.target, second.target)
    return None if source is None or target is None else source + target


def copy_run(names: dict[StorageId, tuple[str, str]], run: tuple[list[Copy], Step]) -> CopyRun:
    """A run of copies in the file format."""
    copies, step = run
    first = copies[0]
    source_stride, target_stride = step or (0, 0)
    return CopyRun(
        source=(*names[first.source.storage], first.source.offset),
        target=(*names[first.target.storage], first.target.offset),
        bytes=first.target.bytes,
        count=len(copies),
        source_stride=source_stride,
        target_stride=target_stride,
    )


def zero_runs(case: Case, zeroes: Iterable[Place]) -> tuple[ZeroRun, ...]:
    """Runs of zeroes in the file format."""
    names = storage_names(case)
    return tuple(
        ZeroRun(
            target=(*names[places[0].storage], places[0].offset),
            bytes=places[0].bytes,
            count=len(places),
            target_stride=step[0] if step else 0,
        )
        for places, step in runs(zeroes, place_step)
    )
