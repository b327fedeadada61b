# SPDX-License-Identifier: Apache-2.0
"""Regions that somebody else's worker registered: L4, L6 (a) and (d), and L11 of tables, without knowing members.

A captured region says which groups' ids address it, not which layers it stands for. So L6 is asked from the layer's
side: the descriptors that its group's ids reach hold each of its pages. Where that is so, base and stride fit; too few
pages are a page that no descriptor holds. Regions may number by smaller or larger units than a layer's pages (a
worker that has several kernel blocks in a block numbers all its regions by them), so that a page count which is a
multiple or a fraction of the layer's is read so. Layers of ssm kinds are moved by rows of their own, which stand in
prepared lists, and are not asked for here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from kvproof.spec.cells import PageView, page_place
from kvproof.spec.judge.spans import BudgetExceeded, Spans
from kvproof.spec.judge.table_laws import contained_findings, ends, outside_words, region_findings
from kvproof.spec.judge.verdict import Finding, first_of_each_law
from kvproof.spec.laws.folding import page_inside
from kvproof.spec.place import overlaps
from kvproof.spec.scope import Covered
from kvproof.spec.tables import Region, descriptor
from kvproof.spec.world import LayerView, WorkerView

REGIONS_LIMIT = 2000
"""Most regions of one worker that are judged: as many as a case has layers at most, twice."""

UNITS_LIMIT = 1024
"""Most units of a region's numbering that one page is taken to have, or pages that one unit has."""

SSM_KINDS = ("ssm", "replicated-ssm")


class CapturedRegion(msgspec.Struct, frozen=True):
    """A registered region, and the groups of the case whose ids address it; None where that is not known.

    ``outside``: the address of a region that begins in no storage of the worker; offset and storage mean nothing then.
    """

    region: Region
    groups: tuple[str, ...] | None
    outside: int | None = None


Captured = Mapping[str, Sequence[CapturedRegion]]
"""Worker: its regions. A worker that does not tell has none."""


def captured_findings(covered: Covered, captured: Captured) -> list[Finding]:
    """The first breach of each law."""
    return first_of_each_law(_all(covered, captured))


def _all(covered: Covered, captured: Captured) -> Iterator[Finding]:
    sides = (
        (covered.producer, [pair.source for pair in covered.pairs]),
        (covered.consumer, [pair.target for pair in covered.pairs]),
    )
    for worker, views in sides:
        regions = _judged(worker, captured.get(worker.name, ()))
        if not regions:
            continue
        for one in regions:
            yield from _place(worker, one)
        for view in views:
            yield from _held(view, [one.region for one in regions if _addressed(one, view.group.name)])
    yield from _contained(covered.consumer, captured.get(covered.consumer.name, ()))


def _judged(worker: WorkerView, regions: Sequence[CapturedRegion]) -> list[CapturedRegion]:
    """The regions that some group addresses page by page. Of a worker with ssm groups, those that say so."""
    if len(regions) > REGIONS_LIMIT:
        raise BudgetExceeded(f"{worker.name} has {len(regions)} regions; at most {REGIONS_LIMIT} are judged")
    by_page = {group.name for group in worker.worker.groups if group.kind not in SSM_KINDS}
    plain = len(by_page) == len(worker.worker.groups)
    return [one for one in regions if (plain if one.groups is None else by_page.intersection(one.groups))]


def _addressed(one: CapturedRegion, group: str) -> bool:
    return one.outside is None and (one.groups is None or group in one.groups)


def _place(worker: WorkerView, one: CapturedRegion) -> Iterator[Finding]:
    """L4: its descriptors lie in one storage."""
    if one.outside is None:
        yield from region_findings(worker, {}, one.region)
    elif one.region.pages > 0:
        words = f"{worker.name}: a region of {one.region.bytes} bytes at {one.outside} begins in no storage of it"
        yield Finding("bounds", "tables", words)


def _held(view: LayerView, regions: list[Region]) -> Iterator[Finding]:
    """L6 (a): each page of the layer's pool lies in a descriptor that the layer's group addresses."""
    if view.group.kind in SSM_KINDS or view.page.pages == 0:
        return
    near = [region for region in regions if region.storage == view.page.storage]
    if any(_holds(view.page, region) for region in near) or _hold_together(view.page, near):
        return
    first = page_place(view.page, 0)
    touched = (region for region in near if region.pages > 0 and overlaps(first, descriptor(region, 0)))
    longest = max(touched, key=lambda region: int(region.bytes), default=None)
    if longest is None:
        words = f"{view.worker}, {view.layer.name}: no region that group {view.group.name} addresses holds its pages"
    else:
        words = outside_words(view, longest)
        if longest.bytes >= view.page.page_bytes and longest.pages < view.page.pages:
            words += f", which lacks page {longest.pages} and those behind it, of {view.page.pages}"
    yield Finding("folding", "tables", words)


def _holds(page: PageView, region: Region) -> bool:
    """Every page of the layer lies in a descriptor of the region, by one way to number it.

    Pages and descriptors step evenly, so that the first and the last speak for those between.
    """
    pages = int(region.pages)
    if 0 < pages < page.pages and page.pages % pages == 0 and page.pages // pages <= UNITS_LIMIT:
        several = page.pages // pages
        return all(_inside(_each(page, first, several), region) for first in range(several))
    return _inside(page, region)


def _inside(page: PageView, region: Region) -> bool:
    return page.pages <= region.pages and all(page_inside(page, region, number) for number in ends(page.pages))


def _each(page: PageView, first: int, several: int) -> PageView:
    """Every so many-th page, from ``first`` on: those that stand at one place in the units of a coarser numbering."""
    return msgspec.structs.replace(
        page,
        offset=page.offset + first * page.page_stride,
        page_stride=page.page_stride * several,
        pages=page.pages // several,
    )


def _hold_together(page: PageView, regions: list[Region]) -> bool:
    """Each page lies in descriptors of several regions, or in several descriptors of one that numbers smaller units.

    Only of those that step as the pages do, so that page 0 speaks for all.
    """
    pieces = [piece for region in regions for piece in _pieces(page, region)]
    alike = [piece for piece in pieces if piece.stride == page.page_stride and piece.pages >= page.pages]
    return not any(Spans(descriptor(piece, 0) for piece in alike).without(page_place(page, 0)))


def _pieces(page: PageView, region: Region) -> Iterator[Region]:
    """The region, numbered as the layer's pages are: one piece for each of its units in a page."""
    units = int(region.pages) // page.pages
    if region.pages % page.pages or not 1 < units <= UNITS_LIMIT:
        units = 1
    for number in range(units):
        yield msgspec.structs.replace(
            region,
            offset=region.offset + number * region.stride,
            stride=region.stride * units,
            pages=region.pages // units,
        )


def _contained(consumer: WorkerView, regions: Sequence[CapturedRegion]) -> Iterator[Finding]:
    """L11: a region inside another that the same group addresses."""
    addressed: dict[tuple[str, str], list[Region]] = defaultdict(list)
    for group in consumer.worker.groups:
        if group.kind not in SSM_KINDS:
            for one in regions:
                if one.groups is not None and _addressed(one, group.name):
                    addressed[group.name, str(one.region.storage)].append(one.region)
    yield from contained_findings(consumer.name, addressed)
