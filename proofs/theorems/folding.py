# SPDX-License-Identifier: Apache-2.0
"""Folding and pairing: what the reference's fold rule puts into one region obeys the law."""

from __future__ import annotations

from dataclasses import dataclass

from kvproof.proofs.claim import Instance, Theorem
from kvproof.proofs.lemmas.products import both_orders, order
from kvproof.proofs.source import Numbers, Source
from kvproof.reference import arithmetic
from kvproof.spec import cells, tables, wellformed
from kvproof.spec import place as places
from kvproof.spec.cells import PageView
from kvproof.spec.laws import economy, folding, parity
from kvproof.spec.logic import Bool, Int, all_of, implies
from kvproof.spec.tables import Region


@dataclass(frozen=True)
class Fold:
    """A layer on one side: its own pages, the region it folds into, and another layer of its group there."""

    own: Region
    region: Region
    other: Region
    page: Int
    other_page: Int

    @property
    def view(self) -> PageView:
        """The layer's pages as the judge sees them."""
        return view_of(self.own)

    @property
    def other_view(self) -> PageView:
        """The other layer's."""
        return view_of(self.other)

    @property
    def offset(self) -> Int:
        """Where the layer starts within the region."""
        return arithmetic.offset_within(self.own.offset, self.region.offset)


@dataclass(frozen=True)
class Folds:
    """A layer of a moved group and its twin, each folded on its side."""

    source: Fold
    target: Fold
    case: str

    @property
    def is_row(self) -> bool:
        """The target's region is a row, as the source's is."""
        return self.case == "row"


def folds(source: Source, variant: str) -> Folds:
    """The world of a pairing."""
    return Folds(fold(source, "source"), fold(source, "target"), variant)


def fold(source: Source, name: str) -> Fold:
    """One side of a pairing."""
    page, other_page = source.integer(f"{name}.page"), source.integer(f"{name}.other_page")
    own, found, other = (region(source, f"{name}.{which}") for which in ("own", "region", "other"))
    return Fold(own, found, other, page, other_page)


def region(source: Source, name: str) -> Region:
    """A region, without members."""
    fields = ("storage", "offset", "bytes", "stride", "pages", "memory")
    storage, offset, length, stride, pages, memory = (source.integer(f"{name}.{field}") for field in fields)
    return Region(storage, offset, length, stride, pages, memory, "attention")


def view_of(own: Region) -> PageView:
    """A region of own pages as a view. How many tokens a page holds is of no account here."""
    return PageView(own.storage, own.offset, own.bytes, own.stride, own.pages, 1, 1, 1)


class FoldedViewsAreContained(Theorem[Folds]):
    """Each page of a folded view lies in its region's descriptor, and moves to where its twin lies in the paired one.

    With its twin, no stowaway: whatever of the moved group a descriptor carries sits at the same offset on both sides.
    Variants: the fold is an exact alias, or into a row; the page is the descriptor's own or another one of the layer,
    or (where regions are own pages) one of another layer of the group. In a row every layer is a member.
    """

    id = "P24"
    law = "folding"
    variants = ("alias", "row")

    def world(self, source: Source, variant: str) -> Folds:
        return folds(source, variant)

    def hypotheses(self, w: Folds) -> list[Bool]:
        return [
            *folded_and_paired(w),
            # Page ordinals pair: the same page of the layer, or not, on both sides.
            implies(w.target.page == w.target.other_page, w.source.page == w.source.other_page),
        ]

    def claim(self, w: Folds) -> Bool:
        source, target = w.source, w.target
        return all_of(
            self.inside(source),
            self.inside(target),
            folding.equal_length(source.region, target.region),
            folding.no_stowaway(
                cells.page_place(source.view, source.other_page),
                tables.descriptor(source.region, source.page),
                cells.page_place(target.view, target.other_page),
                tables.descriptor(target.region, target.page),
            ),
        )

    def inside(self, w: Fold) -> Bool:
        """(a) and (d) on one side."""
        return all_of(
            folding.page_inside(w.view, w.region, w.page), folding.fits(w.view, w.own.memory, w.region, w.offset)
        )

    def lemmas(self, w: Folds) -> list[Instance]:
        return [
            *strides(w.source, w.source.page),
            *strides(w.target, w.target.page),
            *strides(w.source, w.source.other_page),
            *strides(w.target, w.target.other_page),
            *both_orders(w.target.page, w.target.other_page, w.target.own.stride),
            order(w.source.page, w.source.other_page, w.source.own.stride),
        ]

    def example(self, variant: str) -> Numbers:
        return ALIAS if variant == "alias" else ROW


class OtherLayersNeverStowAway(Theorem[Folds]):
    """A descriptor that is not a row carries no byte of any other layer of the moved group."""

    id = "P42"
    law = "folding"
    variants = ("alias",)

    def world(self, source: Source, variant: str) -> Folds:
        return folds(source, variant)

    def hypotheses(self, w: Folds) -> list[Bool]:
        target = w.target
        return [
            *folded(target, w.is_row),
            0 < target.other.bytes,
            # W10, as ``LayersOfAGroupAreDisjoint`` proves it of any two pages; here of the two pairs named.
            self.apart(target, target.other_page),
            self.apart(target, target.page),
        ]

    def apart(self, w: Fold, page: Int) -> Bool:
        """The layer's page and a page of the other layer share no byte."""
        return places.disjoint(cells.page_place(w.view, w.page), cells.page_place(w.other_view, page))

    def claim(self, w: Folds) -> Bool:
        source, target = w.source, w.target
        descriptor = tables.descriptor(target.region, target.page)
        return all_of(
            folding.no_stowaway(
                cells.page_place(source.other_view, source.other_page),
                tables.descriptor(source.region, source.page),
                cells.page_place(target.other_view, target.other_page),
                descriptor,
            ),
            economy.not_contained(target.other, target.region, target.page),
            economy.not_contained(target.region, target.other, target.page),
        )

    def lemmas(self, w: Folds) -> list[Instance]:
        return strides(w.target, w.target.page)

    def example(self, variant: str) -> Numbers:
        return ALIAS


class PairedDescriptorsMatch(Theorem[Folds]):
    """Paired descriptors have equal lengths and lie in the memory of their lists, as many on each side."""

    id = "P43"
    law = "parity"
    variants = ("alias", "row")

    def world(self, source: Source, variant: str) -> Folds:
        return folds(source, variant)

    def hypotheses(self, w: Folds) -> list[Bool]:
        return folded_and_paired(w)

    def claim(self, w: Folds) -> Bool:
        source, target = w.source.region, w.target.region
        # Both lists run over the same page ordinals: one source id and one target id for each.
        ordinals = w.target.other_page - w.target.page
        return all_of(
            parity.descriptors_pair(
                source.bytes, source.memory, w.source.own.memory, target.bytes, target.memory, w.target.own.memory
            ),
            parity.counts_pair(ordinals, ordinals),
        )

    def example(self, variant: str) -> Numbers:
        return ALIAS if variant == "alias" else ROW


def folded_and_paired(w: Folds) -> list[Bool]:
    """On both sides the view folds into the region, and by it as a member the two regions pair."""
    return [
        *folded(w.source, w.is_row),
        *folded(w.target, w.is_row),
        arithmetic.member_agrees(w.source.region.bytes, w.source.offset, w.target.region.bytes, w.target.offset),
    ]


def folded(w: Fold, is_row: bool) -> list[Bool]:
    """The view folds into the region; both are well formed, and the pages named are the view's."""
    return [
        arithmetic.folds(w.own, w.region, is_row),
        0 <= w.own.offset,
        0 < w.own.bytes,
        0 < w.own.stride,
        wellformed.page_in_stride(w.view),
        # A row's descriptors are its stride, a page's at most that (W3).
        w.region.bytes <= w.region.stride,
        0 <= w.page,
        w.page < w.own.pages,
        0 <= w.other_page,
        w.other_page < w.own.pages,
    ]


def strides(w: Fold, page: Int) -> list[Instance]:
    """Equal strides carry a page equally far."""
    return [order(w.own.stride, w.region.stride, page)]


def _region(name: str, storage: int, offset: int, length: int, stride: int, pages: int) -> dict[str, int]:
    values = (storage, offset, length, stride, pages, 0)
    fields = ("storage", "offset", "bytes", "stride", "pages", "memory")
    return {f"{name}.{field}": value for field, value in zip(fields, values, strict=True)}


_PAGES = {"source.page": 2, "source.other_page": 2, "target.page": 3, "target.other_page": 3}

ROW = Numbers(
    {
        **_region("source.own", 0, 19_008, 32_768, 67_584, 50),
        **_region("source.region", 0, 0, 67_584, 67_584, 50),
        **_region("source.other", 0, 0, 19_008, 67_584, 50),
        **_region("target.own", 0, 19_008, 32_768, 67_584, 100),
        **_region("target.region", 0, 0, 67_584, 67_584, 100),
        **_region("target.other", 0, 0, 19_008, 67_584, 100),
        **_PAGES,
    }
)
"""A page of 32,768 bytes inside rows of 67,584, beside one of 19,008 (the sizes of DeepSeek-V4.1-Flash)."""

ALIAS = Numbers(
    {
        **ROW.integers,
        **_region("source.region", 0, 19_008, 32_768, 67_584, 50),
        **_region("target.region", 0, 19_008, 32_768, 67_584, 100),
    }
)
"""The same pages, in a storage that registers no rows."""
