# SPDX-License-Identifier: Apache-2.0
"""The laws of descriptor lists by brute force: every descriptor, id and listed page, by the kernels alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import msgspec

from kvproof.fuzzing.enumerate import enumerate_plan
from kvproof.spec.cells import page_place
from kvproof.spec.descriptors import DescriptorFile, DescriptorList, Transfer
from kvproof.spec.laws.bounds import span_in_storage
from kvproof.spec.laws.descriptor_ids import distinct, id_in_range, sections_apart
from kvproof.spec.laws.folding import no_stowaway
from kvproof.spec.laws.parity import counts_pair, descriptors_pair
from kvproof.spec.place import Place, overlaps
from kvproof.spec.plan import Copy, Plan
from kvproof.spec.scope import Covered
from kvproof.spec.tables import Section
from kvproof.spec.vocabulary import Kind, Law
from kvproof.spec.world import LayerView, WorkerView

SECTION_OF: dict[Kind, Section] = {"ssm": "ssm", "replicated-ssm": "replicated-ssm"}


class Spot(msgspec.Struct, frozen=True):
    """One descriptor; ``place`` and ``kind`` of the storage that it lies in, None where it lies in none."""

    bytes: int
    place: Place | None
    kind: str | None


def enumerate_lists(covered: Covered, lists: DescriptorFile, zeroes: tuple[Place, ...]) -> frozenset[Law]:
    """Which laws the lists break, by themselves and as a plan. ``zeroes``: theirs, one by one."""
    broken: set[Law] = set()
    copies: list[Copy] = []
    for transfer in lists.transfers:
        sources = _spots(covered.producer, transfer.source, lists.bases[transfer.producer])
        targets = _spots(covered.consumer, transfer.target, lists.bases[transfer.consumer])
        broken.update(_rows(transfer.source, sources), _rows(transfer.target, targets))
        broken.update(_ids(transfer, len(sources), len(targets)))
        for first, second in zip(transfer.source_ids, transfer.target_ids, strict=False):
            if first not in range(len(sources)) or second not in range(len(targets)):
                continue
            broken.update(_pair(transfer, sources[first], targets[second]))
            copy = _copy(sources[first], targets[second])
            if copy is not None and covered.tokens is not None:
                copies.append(copy)
                broken.update(_moved(covered, transfer, first, second, copy))
    if covered.tokens is not None:
        broken.update(enumerate_plan(covered, Plan(tuple(copies), zeroes)).laws)
    return frozenset(broken)


def _spots(worker: WorkerView, prepared: DescriptorList, bases: dict[str, int]) -> list[Spot]:
    """Every descriptor of a list, in the order of ids."""
    return [
        _spot(worker, bases, address + number * stride, length)
        for address, length, _, stride, count in prepared.rows
        for number in range(count)
    ]


def _spot(worker: WorkerView, bases: dict[str, int], address: int, length: int) -> Spot:
    for storage in worker.worker.storages:
        place = Place(f"{worker.name}/{storage.name}", address - bases[storage.name], length)
        if span_in_storage(place, storage.bytes):
            return Spot(length, place, storage.memory)
    return Spot(length, None, None)


def _rows(prepared: DescriptorList, spots: list[Spot]) -> Iterator[Law]:
    """L4 and L8 of every descriptor, addressed or not."""
    for spot in spots:
        if spot.place is None:
            yield "bounds"
        elif spot.kind != prepared.memory:
            yield "parity"


def _ids(transfer: Transfer, sources: int, targets: int) -> Iterator[Law]:
    """L7 of ids and sections, and their counts."""
    if not counts_pair(len(transfer.source_ids), len(transfer.target_ids)):
        yield "parity"
    positions = enumerate(transfer.target_ids)
    if not all(distinct(i, first, j, second) for (i, first), (j, second) in combinations(positions, 2)):
        yield "descriptor-ids"
    for prepared, ids, total in (
        (transfer.source, transfer.source_ids, sources),
        (transfer.target, transfer.target_ids, targets),
    ):
        if not all(id_in_range(one, 0, total) for one in ids):
            yield "descriptor-ids"
        ranges = list((prepared.sections or {}).values())
        if not all(start <= end <= total for start, end in ranges):
            yield "descriptor-ids"
        if not all(sections_apart(*first, *second) for first, second in combinations(ranges, 2)):
            yield "descriptor-ids"


def _pair(transfer: Transfer, source: Spot, target: Spot) -> Iterator[Law]:
    """L8 of two descriptors. What lies in no storage has another law's answer already."""
    kinds = source.kind or transfer.source.memory, target.kind or transfer.target.memory
    known = all(spot.place is not None or not spot.bytes for spot in (source, target))
    if known and not descriptors_pair(
        source.bytes, kinds[0], transfer.source.memory, target.bytes, kinds[1], transfer.target.memory
    ):
        yield "parity"


def _copy(source: Spot, target: Spot) -> Copy | None:
    """What the pair moves."""
    length = min(source.bytes, target.bytes)
    if source.place is None or target.place is None or not length:
        return None
    return Copy(
        Place(source.place.storage, source.place.offset, length),
        Place(target.place.storage, target.place.offset, length),
    )


def _moved(covered: Covered, transfer: Transfer, first: int, second: int, copy: Copy) -> Iterator[Law]:
    """L6 (b) of each layer with a page of a listed block in the target, and the sections of its group."""
    for pair in covered.pairs:
        twin = pair.source.page
        for page in _listed(covered.consumer, pair.target):
            place = page_place(pair.target.page, page)
            if not overlaps(place, copy.target):
                continue
            if not any(
                no_stowaway(page_place(twin, number), copy.source, place, copy.target) for number in range(twin.pages)
            ):
                yield "folding"
            section = SECTION_OF.get(pair.target.group.kind, "attention")
            for prepared, one in ((transfer.source, first), (transfer.target, second)):
                if prepared.sections is not None and not id_in_range(one, *prepared.sections.get(section, (0, 0))):
                    yield "descriptor-ids"


def _listed(worker: WorkerView, view: LayerView) -> list[int]:
    """The layer's pages in the blocks that its table lists."""
    blocks = set(worker.worker.tables[view.group.name].blocks) - {view.pool.null}
    return [page for page in range(view.page.pages) if page // view.page.pages_per_block in blocks]
