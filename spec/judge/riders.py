# SPDX-License-Identifier: Apache-2.0
"""Descriptor lists against the layers they move: what rides along, and whether ids lie in their group's section.

Lists do not say which layers a row stands for. But the target block tells the moved group, and L6 (b) asks of every
layer of that group that its bytes sit at the same offset in both descriptors.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kvproof.spec.cells import PageView, page_place
from kvproof.spec.judge.verdict import Finding
from kvproof.spec.laws.descriptor_ids import id_in_range
from kvproof.spec.laws.folding import no_stowaway
from kvproof.spec.place import Place, overlaps
from kvproof.spec.plan import Copy
from kvproof.spec.scope import Covered, LayerPair
from kvproof.spec.tables import Section
from kvproof.spec.vocabulary import Group
from kvproof.spec.world import LayerView

RIDERS_LIMIT = 1000
"""Most pages of one layer looked at in one descriptor. A descriptor of more breaks other laws already."""

Sections = dict[Section, tuple[int, int]]


class Moved(msgspec.Struct, frozen=True):
    """One resolved pair of ids: where it stands in the lists, and the two descriptors as a copy.

    ``rows`` are the transfer and the rows of the source and target descriptor. Ids and sections: source, then target.
    """

    rows: tuple[int, int, int]
    ids: tuple[int, int]
    sections: tuple[Sections | None, Sections | None]
    copy: Copy


def rider_findings(covered: Covered, moved: list[Moved]) -> Iterator[Finding]:
    """L6 (b) for the first and last pair of each two rows and group, and the group's section for every id."""
    owners = _Owners(covered)
    ends: dict[tuple[tuple[int, int, int], str], tuple[Moved, Moved]] = {}
    for one in moved:
        group = owners.group_of(one.copy.target)
        if group is None:
            continue  # not the request's own: confinement says so
        yield from _section(group, one)
        first, _ = ends.get((one.rows, group.name), (one, one))
        ends[one.rows, group.name] = (first, one)
    for (_, name), pair in ends.items():
        for one in pair:
            yield from _riders(covered, name, one.copy)


class _Owners:
    """Which group of the consumer a byte of one of its listed blocks belongs to."""

    def __init__(self, covered: Covered) -> None:
        self._views: dict[str, list[LayerView]] = {}
        self._blocks: dict[str, frozenset[int]] = {}
        for view in covered.consumer.layers:
            self._views.setdefault(view.page.storage, []).append(view)
        for group in covered.consumer.worker.groups:
            null = next(pool.null for pool in covered.consumer.worker.pools if pool.name == group.pool)
            blocks = covered.consumer.worker.tables[group.name].blocks
            self._blocks[group.name] = frozenset(block for block in blocks if block != null)

    def group_of(self, place: Place) -> Group | None:
        """The group in whose block the place has a page."""
        views = self._views.get(place.storage, [])
        for index, view in enumerate(views):
            for page in _pages_in(view.page, place):
                if page // view.page.pages_per_block in self._blocks[view.group.name]:
                    # What comes next is likely to be of the same group.
                    views.insert(0, views.pop(index))
                    return view.group
        return None


def _pages_in(view: PageView, place: Place) -> Iterator[int]:
    """Ids of the view's pages that share bytes with a place of its storage."""
    first = max(0, (place.offset - view.offset - view.page_bytes) // view.page_stride + 1)
    for page in range(first, min(view.pages, first + RIDERS_LIMIT)):
        if not overlaps(page_place(view, page), place):
            return
        yield page


def _section(group: Group, one: Moved) -> Iterator[Finding]:
    section: Section = "attention"
    if group.kind in ("ssm", "replicated-ssm"):
        section = "ssm" if group.kind == "ssm" else "replicated-ssm"
    for side, value, sections in zip(("source", "target"), one.ids, one.sections, strict=True):
        start, end = (sections or {}).get(section, (0, 0))
        if sections is not None and not id_in_range(value, start, end):
            words = f"{side} id {value} of group {group.name} ({group.kind}) is not in the list's section {section}"
            yield Finding("descriptor-ids", "tables", words)


def _riders(covered: Covered, group: str, copy: Copy) -> Iterator[Finding]:
    for pair in covered.pairs:
        if pair.target.group.name == group and pair.target.page.storage == copy.target.storage:
            for page in _pages_in(pair.target.page, copy.target):
                if not _rides_well(pair, copy, page):
                    yield Finding("folding", "tables", _words(pair, copy, page))


def _words(pair: LayerPair, copy: Copy, page: int) -> str:
    source, target = copy.source, copy.target
    layer = f"{pair.target.worker}, {pair.target.layer.name}, page {page}"
    here = f"the descriptor of {target.bytes} bytes at {target.offset} of {target.storage}"
    there = f"that at {source.offset} of {source.storage}"
    return f"{layer}: rides in {here}, but no page of it on {pair.source.worker} lies alike in {there}"


def _rides_well(pair: LayerPair, copy: Copy, page: int) -> bool:
    """The only page of the twin that can sit at the same offset of the source descriptor does."""
    place, twin = page_place(pair.target.page, page), pair.source.page
    shift = place.offset - copy.target.offset
    number = (copy.source.offset + shift - twin.offset) // twin.page_stride
    if not 0 <= number < twin.pages:
        return False
    return bool(no_stowaway(page_place(twin, number), copy.source, place, copy.target))
