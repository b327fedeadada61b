# SPDX-License-Identifier: Apache-2.0
"""Faulty fold and pairing rules, among them the fold test without each of its conditions."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import msgspec

from kvproof.proofs import on_reference
from kvproof.proofs.claim import Refutation
from kvproof.proofs.source import Source
from kvproof.proofs.theorems.folding import Fold, Folds, folds
from kvproof.reference import arithmetic
from kvproof.reference.faults import base_folding
from kvproof.spec import cells, tables, wellformed
from kvproof.spec import place as places
from kvproof.spec.laws import folding
from kvproof.spec.logic import Bool, all_of
from kvproof.spec.tables import Region
from kvproof.spec.vocabulary import Law


class FaultyFold(Refutation[Folds]):
    """A layer folded, and paired with its twin, by a faulty rule."""

    law: ClassVar[Law | None] = "folding"

    def world(self, source: Source, variant: str) -> Folds:
        return folds(source, variant)


class Stowaway(FaultyFold):
    """A shorter view may ride in a longer page at its base: whatever the descriptors carry along is placed alike."""

    id = "R09"

    def hypotheses(self, w: Folds) -> list[Bool]:
        return [
            *self.by_base(w.source),
            *self.by_base(w.target),
            arithmetic.member_agrees(w.source.region.bytes, w.source.offset, w.target.region.bytes, w.target.offset),
            w.source.page == w.source.other_page,
            w.target.page == w.target.other_page,
        ]

    def by_base(self, w: Fold) -> list[Bool]:
        """The view folds by its base into a longer page, past which lies another layer of its group (W10)."""
        pages = cells.page_place(w.view, w.page), cells.page_place(w.other_view, w.other_page)
        return [
            *sound(w.own),
            *sound(w.region),
            *sound(w.other),
            base_folding.same_base(w.own, w.region),
            w.own.bytes < w.region.bytes,
            w.region.offset <= w.other.offset,
            *[each.offset + each.bytes <= w.own.stride for each in (w.region, w.other)],
            w.own.stride == w.region.stride,
            w.own.stride == w.other.stride,
            w.own.storage == w.other.storage,
            places.disjoint(*pages),
            0 <= w.page,
        ]

    def claim(self, w: Folds) -> Bool:
        source, target = w.source, w.target
        return folding.no_stowaway(
            cells.page_place(source.other_view, source.other_page),
            tables.descriptor(source.region, source.page),
            cells.page_place(target.other_view, target.other_page),
            tables.descriptor(target.region, target.page),
        )

    def on_reference(self, w: Folds) -> bool:
        """Folding by base breaks alignment: the longer page belongs to an attention layer, the other two to a ring."""
        case = on_reference.fold_case(w, ("attention", ("region",)), ("ring", ("own", "other")))
        return on_reference.breaks(case, "fold-by-base", "alignment")

    def words(self, w: Folds) -> str:
        source, target = w.source, w.target
        return (
            f"a view of {target.own.bytes} B rides in a page of {target.region.bytes} B; another layer lies "
            f"{source.other.offset - source.region.offset} B into it on the producer, "
            f"{target.other.offset - target.region.offset} B on the consumer"
        )


class FoldByBase(FaultyFold):
    """A view that starts where a region does lies inside it."""

    id = "R10"

    def hypotheses(self, w: Folds) -> list[Bool]:
        target = w.target
        return [
            *sound(target.own),
            *sound(target.region),
            base_folding.same_base(target.own, target.region),
            target.own.stride == target.region.stride,
            target.own.pages == target.region.pages,
            target.own.offset + target.own.bytes <= target.own.stride,
            0 <= target.page,
            target.page < target.own.pages,
        ]

    def claim(self, w: Folds) -> Bool:
        return folding.page_inside(w.target.view, w.target.region, w.target.page)

    def on_reference(self, w: Folds) -> bool:
        """Folding by base breaks coverage: the shorter page belongs to an attention layer, the longer one to a ring."""
        case = on_reference.fold_case(alike(w), ("attention", ("region",)), ("ring", ("own",)))
        return on_reference.breaks(case, "fold-by-base", "coverage")

    def words(self, w: Folds) -> str:
        return f"{w.target.own.bytes - w.target.region.bytes} of {w.target.own.bytes} bytes never arrive"


class _FoldTestWithout(FaultyFold):
    """The reference's own fold test, blind to some fields: it is given the region's value of each in the view's place.

    What is to hold all the same: the view's page lies inside, and base, stride, page count and memory fit.
    """

    blind: ClassVar[tuple[str, ...]]
    variants = ("alias", "row")

    def hypotheses(self, w: Folds) -> list[Bool]:
        own, region = w.target.own, w.target.region
        seen = msgspec.structs.replace(own, **{field: getattr(region, field) for field in self.blind})
        return [
            *sound(own),
            *sound(region),
            arithmetic.folds(seen, region, w.is_row),
            0 <= w.target.page,
            w.target.page < own.pages,
        ]

    def claim(self, w: Folds) -> Bool:
        target = w.target
        return all_of(
            folding.page_inside(target.view, target.region, target.page),
            folding.fits(target.view, target.own.memory, target.region, target.offset),
        )


class FoldTestWithoutBase(_FoldTestWithout):
    """The fold test needs no base."""

    id = "R11"
    blind = ("offset",)


class FoldTestWithoutStorage(_FoldTestWithout):
    """The fold test needs no storage."""

    id = "R12"
    blind = ("storage",)


class FoldTestWithoutStride(_FoldTestWithout):
    """The fold test needs no stride."""

    id = "R13"
    blind = ("stride",)


class FoldTestWithoutPageCount(_FoldTestWithout):
    """The fold test needs no page count."""

    id = "R14"
    blind = ("pages",)


class FoldTestWithoutMemory(_FoldTestWithout):
    """The fold test needs no memory kind."""

    id = "R15"
    blind = ("memory",)


class FoldTestWithoutLength(_FoldTestWithout):
    """The fold test needs no length."""

    id = "R16"
    blind = ("bytes",)


class MisfitsAreMembers(FaultyFold):
    """A view that lies in a region has its stride, page count and memory."""

    id = "R17"

    def hypotheses(self, w: Folds) -> list[Bool]:
        target = w.target
        inside = folding.page_inside(target.view, target.region, target.page)
        return [*sound(target.own), *sound(target.region), 0 <= target.page, target.page < target.own.pages, inside]

    def claim(self, w: Folds) -> Bool:
        target = w.target
        return folding.fits(target.view, target.own.memory, target.region, target.offset)


def alike(w: Folds) -> Folds:
    """The world with the target's layers on both sides."""
    return replace(w, source=w.target)


def sound(region: Region) -> list[Bool]:
    """W1, W3 of a region."""
    return [
        0 <= region.offset,
        0 < region.bytes,
        0 < region.stride,
        wellformed.page_in_stride(
            cells.PageView(region.storage, region.offset, region.bytes, region.stride, region.pages, 1, 1, 1)
        ),
    ]
