# SPDX-License-Identifier: Apache-2.0
"""The laws of tables: bounds of descriptors, L6, L7, L8, and what tables say of L11.

Descriptors of one region, and pages of one layer, step evenly, so that the first and the last page speak for all.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate, permutations, takewhile

from kvproof.spec.cells import PageView, page_place
from kvproof.spec.judge.spans import overlapping
from kvproof.spec.judge.verdict import Finding, first_of_each_law
from kvproof.spec.laws.bounds import span_in_storage
from kvproof.spec.laws.descriptor_ids import distinct, id_in_range, sections_apart
from kvproof.spec.laws.economy import not_contained
from kvproof.spec.laws.folding import equal_length, fits, no_stowaway, page_inside
from kvproof.spec.laws.parity import counts_pair, descriptors_pair
from kvproof.spec.logic import ceil_div
from kvproof.spec.place import Place, contains, overlaps
from kvproof.spec.scope import Covered, LayerPair
from kvproof.spec.tables import SECTIONS, Member, Pairing, Region, Section, Tables, descriptor
from kvproof.spec.vocabulary import Law
from kvproof.spec.world import LayerView, WorkerView

Found = Iterator[Finding]


def table_findings(covered: Covered, tables: Tables) -> list[Finding]:
    """The first breach of each law."""
    return first_of_each_law(_all(covered, tables))


def _all(covered: Covered, tables: Tables) -> Found:
    sides = (
        (covered.producer, tables.registered.get(covered.producer.name, ())),
        (covered.consumer, tables.registered.get(covered.consumer.name, ())),
        (covered.producer, tables.source),
        (covered.consumer, tables.target),
    )
    for worker, regions in sides:
        views = {view.layer.name: view for view in worker.layers}
        for region in regions:
            yield from region_findings(worker, views, region)
    yield from _stood_for(covered, tables)
    shelf = _Shelf(covered)
    for pairing in tables.pairings:
        yield from _pairing(covered, tables, pairing, shelf)
    yield from _ids(covered, tables)
    yield from _contained(covered, tables)


def _finding(law: Law, words: str) -> Finding:
    return Finding(law, "tables", words)


def region_words(region: Region) -> str:
    """A region for a reader."""
    end = region.offset + region.bytes
    return f"region {region.storage} bytes {region.offset}–{end - 1}, stride {region.stride}, {region.pages} pages"


def ends(pages: int) -> tuple[int, ...]:
    """The first and the last of so many pages."""
    return (0, pages - 1) if pages > 0 else ()


def region_findings(worker: WorkerView, views: dict[str, LayerView], region: Region) -> Found:
    """L4 of its descriptors; L6 (a) and (d) for each member. ``views`` are the worker's layers by name."""
    storage = worker.storages.get(region.storage)
    for page in ends(region.pages):
        if storage is None or not span_in_storage(descriptor(region, page), storage.bytes):
            yield _finding("bounds", f"{region_words(region)}: descriptor {page} leaves the storage")
    for member in region.members:
        view = views[member.layer]
        for page in ends(view.page.pages):
            if not _inside(view, member, region, page):
                yield _finding("folding", outside_words(view, region))
        # The part of an ssm page starts inside the page: a member offset counts from the page's start.
        if not fits(view.page, view.storage.memory, region, member_offset(view, member)):
            yield _finding(
                "folding",
                f"{view.worker}, {view.layer.name}: offset {view.page.offset}, stride {view.page.page_stride}, "
                f"{view.page.pages} pages, {view.storage.memory} do not fit {region_words(region)}, {region.memory}",
            )


def _stood_for(covered: Covered, tables: Tables) -> Found:
    """L6 presupposes that some region stands for each layer, an ssm layer's parts one by one."""
    sides = (
        (tables.source, [pair.source for pair in covered.pairs]),
        (tables.target, [pair.target for pair in covered.pairs]),
    )
    for regions, views in sides:
        members: dict[str, set[int | None]] = defaultdict(set)
        for member in (member for region in regions for member in region.members):
            members[member.layer].add(member.part)
        for view in views:
            parts = members[view.layer.name]
            if None not in parts and not parts >= set(range(len(view.parts))):
                yield _finding("folding", f"{view.worker}, {view.layer.name}: no region stands for it")


def member_offset(view: LayerView, member: Member) -> int:
    """Bytes from the region's start to the layer's page; negative for the later parts of an ssm page."""
    start = view.parts[member.part].start if member.part is not None else 0
    return int(member.offset - start)


def _inside(view: LayerView, member: Member, region: Region, page: int) -> bool:
    """L6 (a): the page, or the part of it that the region stands for, lies in the descriptor."""
    if member.part is None:
        return bool(page_inside(view.page, region, page))
    part, whole = view.parts[member.part], page_place(view.page, page)
    piece = Place(whole.storage, whole.offset + part.start, part.count * view.page.states_per_page * part.unit_bytes)
    return bool(contains(descriptor(region, page), piece))


def outside_words(view: LayerView, region: Region) -> str:
    """L6 (a): the layer's page is not inside the descriptor."""
    missing = view.page.page_bytes - region.bytes
    short = f", {missing} bytes longer" if missing > 0 else ""
    page = f"{view.worker}, {view.layer.name}: its page of {view.page.page_bytes} bytes{short}"
    return f"{page} is not inside {region_words(region)}"


def _pairing(covered: Covered, tables: Tables, pairing: Pairing, shelf: _Shelf) -> Found:
    """L6 (b), (c), and L8 of the two regions."""
    source, target = tables.source[pairing.source], tables.target[pairing.target]
    words = f"group {pairing.group}: {region_words(source)} is paired with {region_words(target)}"
    if not equal_length(source, target):
        yield _finding("folding", words)
    if not counts_pair(len(pairing.source_pages), len(pairing.target_pages)):
        yield _finding("parity", _counts_words(pairing.group, len(pairing.source_pages), len(pairing.target_pages)))
    kinds = _memory(covered.producer, source), _memory(covered.consumer, target)
    if not descriptors_pair(source.bytes, source.memory, kinds[0], target.bytes, target.memory, kinds[1]):
        yield _finding("parity", words)
    yield from _riders(shelf.near(pairing.group, target), pairing, source, target)


class _Shelf:
    """The layers of each consumer group and storage, by where they lie in their stride: which may lie in a region."""

    def __init__(self, covered: Covered) -> None:
        self._shelves: dict[tuple[str, str], dict[int, list[LayerPair]]] = defaultdict(lambda: defaultdict(list))
        for pair in covered.pairs:
            page = pair.target.page
            self._shelves[pair.target.group.name, page.storage][page.page_stride].append(pair)
        self._longest: dict[tuple[str, str, int], int] = {}
        for place, shelves in self._shelves.items():
            for stride, pairs in shelves.items():
                pairs.sort(key=_within_stride)
                self._longest[*place, stride] = max(pair.target.page.page_bytes for pair in pairs)

    def near(self, group: str, region: Region) -> Iterator[LayerPair]:
        """Those with a page that may share bytes with a descriptor: where strides are equal few others, else all."""
        for stride, pairs in self._shelves.get((group, region.storage), {}).items():
            reach = self._longest[group, region.storage, stride] + region.bytes
            if stride != region.stride or reach >= stride:
                yield from pairs
                continue
            low = (region.offset + region.bytes - reach) % stride
            first = bisect_left(pairs, low, key=_within_stride)
            for pair in pairs[first:] + pairs[:first]:
                if (pair.target.page.offset - low) % stride >= reach:
                    break
                yield pair


def _within_stride(pair: LayerPair) -> int:
    return int(pair.target.page.offset % pair.target.page.page_stride)


def _riders(pairs: Iterable[LayerPair], pairing: Pairing, source: Region, target: Region) -> Found:
    """L6 (b) for the layers of the moved group that may have bytes in the target descriptors."""
    tables = set()
    for pair in pairs:
        for source_page, target_page in _pages_to_try(pair, pairing, source, target):
            origin, goal = descriptor(source, source_page), descriptor(target, target_page)
            place = page_place(pair.target.page, target_page)
            if overlaps(place, goal):
                tables.add(pair.source.group.name)
            if not no_stowaway(page_place(pair.source.page, source_page), origin, place, goal):
                yield _finding("folding", _elsewhere_words(pair, source, target))
            # With which page another one of the layer pairs is not for this descriptor to say.
            other = next((page for page in _pages_in(pair.target.page, goal) if page != target_page), None)
            if other is not None:
                words = f"{_elsewhere_words(pair, source, target)} (page {other} in page {target_page})"
                yield _finding("folding", words)
    if len(tables) > 1:
        words = f"group {pairing.group}: {region_words(target)} is filled from blocks of {len(tables)} producer groups"
        yield _finding("folding", words)


def _pages_to_try(pair: LayerPair, pairing: Pairing, source: Region, target: Region) -> list[tuple[int, int]]:
    """The pairs of the least and greatest target page, where layer and region step alike; else all. Page 0 if none.

    Where they step alike, one pair is like another but for the ends: next to the first and last page lies no other.
    """
    pages = list(zip(pairing.source_pages, pairing.target_pages, strict=False))
    alike = (pair.source.page.page_stride, pair.target.page.page_stride) == (source.stride, target.stride)
    if not pages:
        return [(0, 0)]
    return [min(pages, key=_target_of), max(pages, key=_target_of)] if alike else pages


def _target_of(pages: tuple[int, int]) -> int:
    return pages[1]


def _pages_in(view: PageView, place: Place) -> Iterator[int]:
    """Ids of the view's pages that share bytes with a place."""
    first = max(0, (place.offset - view.offset - view.page_bytes) // view.page_stride + 1)
    return takewhile(lambda page: bool(overlaps(page_place(view, page), place)), range(first, view.pages))


def _elsewhere_words(pair: LayerPair, source: Region, target: Region) -> str:
    layer = f"{pair.target.worker}, {pair.target.layer.name}"
    return f"{layer}: rides in {region_words(target)}, but lies elsewhere in {region_words(source)}"


def _counts_words(group: str, sources: int, targets: int) -> str:
    return f"group {group}: {sources} source pages are paired with {targets} target pages"


def _memory(worker: WorkerView, region: Region) -> str:
    storage = worker.storages.get(region.storage)
    return storage.memory if storage is not None else ""


def _ids(covered: Covered, tables: Tables) -> Found:
    """L7 and L8 of the flat id lists."""
    for worker, regions, ids in (
        (covered.producer, tables.source, tables.source_ids),
        (covered.consumer, tables.target, tables.target_ids),
    ):
        total = sum(region.pages for region in regions)
        for wrong in (value for value in ids if not id_in_range(value, 0, total)):
            yield _finding("descriptor-ids", f"{worker.name}: id {wrong} is not below {total}, the length of its list")
            break
        yield from _sections(worker, regions)
    seen: dict[int, int] = {}
    for position, value in enumerate(tables.target_ids):
        if not distinct(seen.setdefault(value, position), value, position, value):
            yield _finding("descriptor-ids", f"{covered.consumer.name}: descriptor {value} is written twice")
            break
    if not counts_pair(len(tables.source_ids), len(tables.target_ids)):
        yield _finding("parity", _counts_words("(all)", len(tables.source_ids), len(tables.target_ids)))


def section_ranges(regions: tuple[Region, ...]) -> dict[Section, tuple[int, int]]:
    """The half-open id range from the first to the last region of each section."""
    starts = list(accumulate((region.pages for region in regions), initial=0))
    ranges: dict[Section, tuple[int, int]] = {}
    for section in SECTIONS:
        inside = [index for index, region in enumerate(regions) if region.section == section]
        if inside:
            ranges[section] = (starts[inside[0]], starts[inside[-1] + 1])
    return ranges


def _sections(worker: WorkerView, regions: tuple[Region, ...]) -> Found:
    ranges = list(section_ranges(regions).items())
    for index, (name, (start, end)) in enumerate(ranges):
        for other, (other_start, other_end) in ranges[index + 1 :]:
            if not sections_apart(start, end, other_start, other_end):
                yield _finding("descriptor-ids", f"{worker.name}: sections {name} and {other} overlap")


def _contained(covered: Covered, tables: Tables) -> Found:
    """L11, for the regions that the pairings of each group address."""
    addressed: dict[tuple[str, str], list[Region]] = defaultdict(list)
    for group, index in dict.fromkeys((pairing.group, pairing.target) for pairing in tables.pairings):
        region = tables.target[index]
        addressed[group, region.storage].append(region)
    yield from contained_findings(covered.consumer.name, addressed)


def contained_findings(consumer: str, addressed: dict[tuple[str, str], list[Region]]) -> Found:
    """L11: a region inside another that the same group addresses. Of two equal regions, one is contained.

    ``addressed``: group and storage -> the regions of the consumer that it addresses.
    """
    for (group, _), regions in addressed.items():
        for inner, outer in _candidates(regions):
            if not not_contained(inner, outer, _page_inside_first(inner, outer)):
                words = f"addresses {region_words(inner)}, contained in {region_words(outer)}"
                yield _finding("economy", f"{consumer}.{group}: {words}")
                return


def _candidates(regions: list[Region]) -> Iterator[tuple[Region, Region]]:
    """Pairs of different regions of one storage, one of which may contain the other.

    Of equal strides only those that overlap at page 0, of unequal ones all.
    """
    by_stride: dict[int, list[Region]] = defaultdict(list)
    for region in regions:
        by_stride[region.stride].append(region)
    for alike in by_stride.values():
        places = [descriptor(region, 0) for region in alike]
        yield from ((alike[i], alike[j]) for i, j in overlapping(places, places) if i != j)
    for first, second in permutations(by_stride.values(), 2):
        yield from ((inner, outer) for inner in first for outer in second)


def _page_inside_first(inner: Region, outer: Region) -> int:
    """The only page that needs a look: the first at which the inner descriptor has come far enough along the outer.

    Where the strides differ it moves through the outer descriptors, and may lie inside one in the middle only.
    """
    shift, step = inner.offset - outer.offset, inner.stride - outer.stride
    if step > 0:
        return max(0, int(ceil_div(-shift, step)))
    return max(0, int(ceil_div(shift - (outer.bytes - inner.bytes), -step))) if step < 0 else 0
