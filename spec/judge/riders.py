# SPDX-License-Identifier: Apache-2.0
"""Descriptor lists against the layers they move: what rides along, and whether ids lie in their group's section.

Lists do not say which layers a row stands for. But a listed block in the target descriptor tells the moved group, and
L6 (b) asks of every layer of that group that its bytes sit at the same offset in both descriptors.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kvproof.spec.cells import page_place
from kvproof.spec.judge.extents import own_blocks
from kvproof.spec.judge.spans import overlapping
from kvproof.spec.judge.verdict import Finding
from kvproof.spec.laws.descriptor_ids import id_in_range
from kvproof.spec.laws.folding import no_stowaway
from kvproof.spec.plan import Copy
from kvproof.spec.scope import Covered, LayerPair
from kvproof.spec.tables import Section
from kvproof.spec.vocabulary import Group
from kvproof.spec.world import LayerView

Sections = dict[Section, tuple[int, int]]


class Moved(msgspec.Struct, frozen=True):
    """One resolved pair of ids, and the two descriptors as a copy. Ids and sections: source, then target."""

    ids: tuple[int, int]
    sections: tuple[Sections | None, Sections | None]
    copy: Copy


def rider_findings(covered: Covered, moved: list[Moved]) -> Iterator[Finding]:
    """For each page of a listed block in a target descriptor: L6 (b), and the section of both ids.

    What else a descriptor writes is not the request's own: confinement says so.
    """
    pages = [(pair, page) for pair in covered.pairs for page in _listed_pages(covered, pair.target)]
    places = [page_place(pair.target.page, page) for pair, page in pages]
    for number, index in overlapping([one.copy.target for one in moved], places):
        one, (pair, page) = moved[number], pages[index]
        yield from _section(pair.target.group, one)
        if not _rides_well(pair, one.copy, page):
            yield Finding("folding", "tables", _words(pair, one.copy, page))


def _listed_pages(covered: Covered, view: LayerView) -> Iterator[int]:
    """The layer's pages in all blocks that its group's table lists, live or not."""
    for _, block in own_blocks(covered.consumer, view.group):
        yield from range(block * view.page.pages_per_block, (block + 1) * view.page.pages_per_block)


def _section(group: Group, one: Moved) -> Iterator[Finding]:
    section: Section = "attention"
    if group.kind in ("ssm", "replicated-ssm"):
        section = "ssm" if group.kind == "ssm" else "replicated-ssm"
    for side, value, sections in zip(("source", "target"), one.ids, one.sections, strict=True):
        start, end = (sections or {}).get(section, (0, 0))
        if sections is not None and not id_in_range(value, start, end):
            words = f"{side} id {value} of group {group.name} ({group.kind}) is not in the list's section {section}"
            yield Finding("descriptor-ids", "tables", words)


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
