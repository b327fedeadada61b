# SPDX-License-Identifier: Apache-2.0
"""The laws of tables by brute force: every region, member, page, pairing and id, by the kernels alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, permutations

from kvproof.spec.cells import page_place
from kvproof.spec.laws.bounds import span_in_storage
from kvproof.spec.laws.descriptor_ids import distinct, id_in_range, sections_apart
from kvproof.spec.laws.economy import not_contained
from kvproof.spec.laws.folding import equal_length, fits, no_stowaway, page_inside
from kvproof.spec.laws.parity import counts_pair, descriptors_pair
from kvproof.spec.place import Place, contains, overlaps
from kvproof.spec.scope import Covered
from kvproof.spec.tables import SECTIONS, Member, Pairing, Region, Tables, descriptor
from kvproof.spec.vocabulary import Law
from kvproof.spec.world import LayerView, WorkerView


def enumerate_tables(covered: Covered, tables: Tables) -> frozenset[Law]:
    """Which laws the tables break."""
    producer, consumer = covered.producer, covered.consumer
    broken: set[Law] = set()
    for worker in (producer, consumer):
        for region in tables.registered.get(worker.name, ()):
            broken.update(_region(worker, region))
    for worker, regions, ids in (
        (producer, tables.source, tables.source_ids),
        (consumer, tables.target, tables.target_ids),
    ):
        for region in regions:
            broken.update(_region(worker, region))
        broken.update(_ids(regions, ids))
    for pairing in tables.pairings:
        broken.update(_pairing(covered, tables, pairing))
    for pair in covered.pairs:
        if not (_stood_for(pair.source, tables.source) and _stood_for(pair.target, tables.target)):
            broken.add("folding")
    if not counts_pair(len(tables.source_ids), len(tables.target_ids)):
        broken.add("parity")
    positions = enumerate(tables.target_ids)
    if not all(distinct(i, first, j, second) for (i, first), (j, second) in combinations(positions, 2)):
        broken.add("descriptor-ids")
    broken.update(_contained(tables))
    return frozenset(broken)


def _region(worker: WorkerView, region: Region) -> Iterator[Law]:
    """L4 of each descriptor; L6 (a) and (d) of each member."""
    size = worker.storages[region.storage].bytes
    for page in range(region.pages):
        if not span_in_storage(descriptor(region, page), size):
            yield "bounds"
    views = {view.layer.name: view for view in worker.layers}
    for member in region.members:
        view = views[member.layer]
        start = 0 if member.part is None else view.parts[member.part].start
        if not fits(view.page, view.storage.memory, region, member.offset - start):
            yield "folding"
        for page in range(view.page.pages):
            if not _inside(view, member, region, page):
                yield "folding"


def _inside(view: LayerView, member: Member, region: Region, page: int) -> bool:
    if member.part is None:
        return bool(page_inside(view.page, region, page))
    part, whole = view.parts[member.part], page_place(view.page, page)
    piece = Place(whole.storage, whole.offset + part.start, part.count * part.unit_bytes)
    return bool(contains(descriptor(region, page), piece))


def _stood_for(view: LayerView, regions: tuple[Region, ...]) -> bool:
    """L6 speaks of layers that a region stands for: there is one for each, or one for each of its parts."""
    parts = [member.part for region in regions for member in region.members if member.layer == view.layer.name]
    return None in parts or all(part in parts for part in range(len(view.parts)))


def _ids(regions: tuple[Region, ...], ids: tuple[int, ...]) -> Iterator[Law]:
    """L7: ids in range, sections apart."""
    owners = [region.section for region in regions for _ in range(region.pages)]
    if not all(id_in_range(one, 0, len(owners)) for one in ids):
        yield "descriptor-ids"
    ranges = []
    for section in SECTIONS:
        inside = [index for index, owner in enumerate(owners) if owner == section]
        if inside:
            ranges.append((inside[0], inside[-1] + 1))
    if not all(sections_apart(*first, *second) for first, second in combinations(ranges, 2)):
        yield "descriptor-ids"


def _pairing(covered: Covered, tables: Tables, pairing: Pairing) -> Iterator[Law]:
    """L6 (b) and (c), L8. With no page moved, (b) is asked of page 0 on both sides."""
    source, target = tables.source[pairing.source], tables.target[pairing.target]
    if not equal_length(source, target):
        yield "folding"
    kinds = covered.producer.storages[source.storage].memory, covered.consumer.storages[target.storage].memory
    if not descriptors_pair(source.bytes, source.memory, kinds[0], target.bytes, target.memory, kinds[1]):
        yield "parity"
    if not counts_pair(len(pairing.source_pages), len(pairing.target_pages)):
        yield "parity"
    moved = list(zip(pairing.source_pages, pairing.target_pages, strict=False))
    for source_page, target_page in moved or [(0, 0)]:
        origin, goal = descriptor(source, source_page), descriptor(target, target_page)
        riders = set()
        for pair in covered.pairs:
            if pair.target.group.name != pairing.group:
                continue
            place = page_place(pair.target.page, target_page)
            if overlaps(place, goal):
                riders.add(pair.source.group.name)
            if not no_stowaway(page_place(pair.source.page, source_page), origin, place, goal):
                yield "folding"
            others = (page for page in range(pair.target.page.pages) if page != target_page)
            if any(overlaps(page_place(pair.target.page, page), goal) for page in others):
                yield "folding"
        if len(riders) > 1:  # then one of them has its tokens in another block
            yield "folding"


def _contained(tables: Tables) -> Iterator[Law]:
    """L11 of tables. Of two equal regions one is contained in the other."""
    for group in {pairing.group for pairing in tables.pairings}:
        addressed = [pairing.target for pairing in tables.pairings if pairing.group == group]
        for first, second in permutations(addressed, 2):
            inner, outer = tables.target[first], tables.target[second]
            for page in range(max(inner.pages, outer.pages)):
                if first != second and not not_contained(inner, outer, page):
                    yield "economy"
