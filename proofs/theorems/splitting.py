# SPDX-License-Identifier: Apache-2.0
"""What splitting a row does to descriptor ids."""

from __future__ import annotations

from typing import NamedTuple

from kvproof.proofs.claim import Theorem
from kvproof.proofs.lemmas.prefix_sums import built
from kvproof.proofs.source import Function, Numbers, Source, listed
from kvproof.reference import arithmetic
from kvproof.spec.logic import Bool, Int, all_of


class Split(NamedTuple):
    """A list of regions, and the list after ``grown`` pages were inserted as a region at ``place``."""

    start: Function
    pages: Function
    new_start: Function
    new_pages: Function
    place: Int
    grown: Int
    region: Int
    page: Int
    case: str


class SplittingShiftsLaterIds(Theorem[Split]):
    """A region inserted when a row is split moves later ids by its pages, leaves earlier ones, and keeps page numbers.

    By induction over the region, before the place of insertion and after it.
    """

    id = "P23"
    law = "descriptor-ids"
    variants = ("before, base", "before, step", "after, base", "after, step")

    def world(self, source: Source, variant: str) -> Split:
        place, grown, region, page = (source.integer(name) for name in ("place", "grown", "region", "page"))
        start, pages = source.function("start"), source.function("pages")
        new_start, new_pages = source.function("new_start"), source.function("new_pages")
        return Split(start, pages, new_start, new_pages, place, grown, region, page, variant)

    def hypotheses(self, w: Split) -> list[Bool]:
        if w.case == "before, base":
            return [w.start(0) == 0, w.new_start(0) == 0]
        if w.case == "before, step":
            return [
                w.region < w.place,
                self.same(w, w.region),
                w.new_pages(w.region) == w.pages(w.region),
                *built(w.start, w.pages, w.region),
                *built(w.new_start, w.new_pages, w.region),
            ]
        if w.case == "after, base":
            return [self.same(w, w.place), w.new_pages(w.place) == w.grown, *built(w.new_start, w.new_pages, w.place)]
        return [
            w.place <= w.region,
            self.shifted(w, w.region),
            w.new_pages(w.region + 1) == w.pages(w.region),
            *built(w.start, w.pages, w.region),
            *built(w.new_start, w.new_pages, w.region + 1),
        ]

    def claim(self, w: Split) -> Bool:
        if w.case == "before, base":
            return self.same(w, 0)
        if w.case == "before, step":
            return self.same(w, w.region + 1)
        if w.case == "after, base":
            return self.shifted(w, w.place)
        return self.shifted(w, w.region + 1)

    def same(self, w: Split, region: Int) -> Bool:
        """Ids of a region before the place of insertion are as they were."""
        new = arithmetic.descriptor_id(w.new_start(region), w.page)
        return new == arithmetic.descriptor_id(w.start(region), w.page)

    def shifted(self, w: Split, region: Int) -> Bool:
        """Ids of a region from there on moved by the growth; the page within the region is the same."""
        new = arithmetic.descriptor_id(w.new_start(region + 1), w.page)
        return all_of(
            new == arithmetic.descriptor_id(w.start(region), w.page) + w.grown,
            arithmetic.page_of_id(w.new_start(region + 1), new) == w.page,
        )

    def example(self, variant: str) -> Numbers:
        tables = {
            "start": listed((0, 100, 200, 250)),
            "pages": listed((100, 100, 50, 50)),
            "new_start": listed((0, 100, 130, 230, 280)),
            "new_pages": listed((100, 30, 100, 50, 50)),
        }
        return Numbers({"place": 1, "grown": 30, "region": 0 if variant == "before, step" else 1, "page": 7}, tables)
