# SPDX-License-Identifier: Apache-2.0
"""Faulty pairing rules, and rows that are registered beside the pages they hold."""

from __future__ import annotations

from kvproof.proofs import on_reference
from kvproof.proofs.refutations.folds import FaultyFold, alike, sound
from kvproof.proofs.theorems.folding import Fold, Folds
from kvproof.reference import arithmetic
from kvproof.reference.faults import base_folding
from kvproof.spec import cells, tables
from kvproof.spec.laws import economy, folding, single_writer
from kvproof.spec.logic import Bool, Int, all_of, negate


class PairingWithoutLength(FaultyFold):
    """Regions in which a member starts at the same offset have equal lengths (W17 dropped)."""

    id = "R18"
    variants = ("row",)

    def hypotheses(self, w: Folds) -> list[Bool]:
        source, target = w.source, w.target
        return [*rows(w), arithmetic.member_agrees(0, source.offset, 0, target.offset)]

    def claim(self, w: Folds) -> Bool:
        return folding.equal_length(w.source.region, w.target.region)


class PairingWithoutOffsets(FaultyFold):
    """A row paired by its length brings each member to its place (W17 dropped)."""

    id = "R19"
    variants = ("row",)

    def hypotheses(self, w: Folds) -> list[Bool]:
        source, target = w.source, w.target
        agreed = arithmetic.member_agrees(source.region.bytes, 0, target.region.bytes, 0)
        return [*rows(w), agreed, 0 <= source.page, 0 <= target.page]

    def claim(self, w: Folds) -> Bool:
        source, target = w.source, w.target
        return folding.no_stowaway(
            cells.page_place(source.view, source.page),
            tables.descriptor(source.region, source.page),
            cells.page_place(target.view, target.page),
            tables.descriptor(target.region, target.page),
        )


class RowFilledFromTwoTables(FaultyFold):
    """A row paired by length and offsets brings each member to its place, whatever tables its twins are filled from."""

    id = "R40"
    variants = ("row",)

    def hypotheses(self, w: Folds) -> list[Bool]:
        source, target = w.source, w.target
        # The descriptors pair by one group of the producer, the member's twin belongs to another: another page.
        pages = [0 <= source.page, 0 <= source.other_page, 0 <= target.page, target.page == target.other_page]
        agreed = arithmetic.member_agrees(source.region.bytes, source.offset, target.region.bytes, target.offset)
        return [*rows(w), agreed, *pages]

    def claim(self, w: Folds) -> Bool:
        source, target = w.source, w.target
        return folding.no_stowaway(
            cells.page_place(source.view, source.other_page),
            tables.descriptor(source.region, source.page),
            cells.page_place(target.view, target.other_page),
            tables.descriptor(target.region, target.page),
        )


class RowIsAddressedTwice(FaultyFold):
    """Folding by base and length leaves no region of a group inside another one."""

    id = "R27"
    law = "economy"

    def hypotheses(self, w: Folds) -> list[Bool]:
        target = w.target
        return [
            *row_beside_page(target),
            base_folding.same_base(target.own, target.region),
            negate(base_folding.same_base_and_length(target.own, target.region)),
        ]

    def claim(self, w: Folds) -> Bool:
        own, region, page = w.target.own, w.target.region, w.target.page
        return all_of(economy.not_contained(own, region, page), economy.not_contained(region, own, page))

    def on_reference(self, w: Folds) -> bool:
        """The row is that of two attention groups, the view at its base a ring's: which is moved twice."""
        attention: on_reference.LayersOfGroup = ("attention", ("other",))
        case = on_reference.fold_case(alike(w), attention, attention, ("ring", ("own",)))
        return on_reference.breaks(case, "row-fold-by-base-and-length", "economy")


class PageInsideRowIsAddressedToo(RowIsAddressedTwice):
    """Folding by base, whole rows first, leaves no region of a group inside another one."""

    id = "R41"

    def hypotheses(self, w: Folds) -> list[Bool]:
        target = w.target
        return [
            *row_beside_page(target),
            target.own.storage == target.region.storage,
            target.own.offset + target.own.bytes <= target.own.stride,
            negate(base_folding.same_base(target.own, target.region)),
        ]

    def on_reference(self, w: Folds) -> bool:
        """As for the other rule, but the ring's view lies further on in the row."""
        attention: on_reference.LayersOfGroup = ("attention", ("other",))
        case = on_reference.fold_case(alike(w), attention, attention, ("ring", ("own",)))
        return on_reference.breaks(case, "row-fold-by-base", "economy")


class RowAndPageAreMovedTwice(RowIsAddressedTwice):
    """Folding by base and length moves no byte twice."""

    id = "R28"

    def hypotheses(self, w: Folds) -> list[Bool]:
        return [*super().hypotheses(w), w.source.own.bytes == w.target.own.bytes]

    def claim(self, w: Folds) -> Bool:
        source, target = w.source, w.target
        row = arithmetic.copy_of(source.region, source.page, target.region, target.page)
        own = arithmetic.copy_of(source.own, source.page, target.own, target.page)
        return economy.not_moved_twice(row, own, target.own.storage, target.own.offset + byte_of(target))


class TwoSourcesMeet(FaultyFold):
    """Two descriptors that overlap on the target bring the same bytes, wherever they come from."""

    id = "R37"
    law = "single-writer"

    def hypotheses(self, w: Folds) -> list[Bool]:
        return RowIsAddressedTwice().hypotheses(w)

    def claim(self, w: Folds) -> Bool:
        source, target = w.source, w.target
        row = arithmetic.copy_of(source.region, source.page, target.region, target.page)
        own = arithmetic.copy_of(source.own, source.page, target.own, target.page)
        return single_writer.same_value(row, own, target.own.storage, target.own.offset + byte_of(target))


def rows(w: Folds) -> list[Bool]:
    """On each side the layer lies in a row."""
    found = [arithmetic.folds(side.own, side.region, w.is_row) for side in (w.source, w.target)]
    return [
        *found,
        *[fact for side in (w.source, w.target) for each in (side.own, side.region) for fact in sound(each)],
    ]


def byte_of(w: Fold) -> Int:
    """Some byte of the page."""
    return w.page * w.own.stride


def row_beside_page(w: Fold) -> list[Bool]:
    """A row that is registered for another layer, and a page of equal stride and count; the page named is in both."""
    return [
        *sound(w.own),
        *sound(w.region),
        w.own.stride == w.region.stride,
        w.own.pages == w.region.pages,
        # The region is the row around another layer. The view that is registered beside it is not that one.
        *sound(w.other),
        w.other.stride == w.own.stride,
        w.other.offset + w.other.bytes <= w.own.stride,
        negate(base_folding.same_base_and_length(w.own, w.other)),
        w.region.bytes == w.region.stride,
        w.region.offset == 0,
        0 <= w.page,
        w.page < w.own.pages,
    ]
