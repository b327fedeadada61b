# SPDX-License-Identifier: Apache-2.0
"""Whatever copy of the reference touches a cell brings it that cell's bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from kvproof.proofs import assumed, examples, worlds
from kvproof.proofs.claim import Instance, Theorem
from kvproof.proofs.lemmas.division import same_division
from kvproof.proofs.lemmas.products import both_orders, order
from kvproof.proofs.source import Numbers, Source
from kvproof.proofs.theorems.cells import CellLiesInsideItsPage, CellOf, StateLiesInItsPage, StateOf
from kvproof.proofs.theorems.pages import BlocksExpandWithoutCollision, Pages
from kvproof.proofs.theorems.selection import SelectedPagesAreListed, page_bounds
from kvproof.proofs.theorems.separation import (
    DistinctBlocksAreDisjointAcrossViews,
    LayersOfAGroupAreDisjoint,
    PagesOfOneGroup,
    TwoPages,
)
from kvproof.proofs.worlds import Side, Transfer
from kvproof.spec import cells, wellformed
from kvproof.spec.laws import alignment, economy, single_writer
from kvproof.spec.logic import Bool, Int, all_of, floor_div, implies, negate


class Rivals(NamedTuple):
    """A transfer, and what the rival layer has in common with the one that is moved."""

    transfer: Transfer
    case: str


class _OfATransfer(Theorem[Transfer]):
    """A theorem over a transfer, with the padded tail as its example."""

    def world(self, source: Source, variant: str) -> Transfer:
        return worlds.transfer(source, variant)

    def example(self, variant: str) -> Numbers:
        return examples.PADDED_TAIL


class CopiesOfALayerAreAligned(_OfATransfer):
    """Whatever copy of its own layer touches a cell that both sides hold, it brings the bytes of that same cell."""

    id = "P15"
    law = "alignment"
    variants = ("unit-major", "state-major")

    def hypotheses(self, w: Transfer) -> list[Bool]:
        cell = cells.page_ordinal(w.target.view, w.cell.state)
        return [
            *assumed.paired(w),
            *assumed.held(w),
            *assumed.selected(w, w.other),
            assumed.reaches(w),
            distinct_blocks(w.target, cell, w.other),
        ]

    def claim(self, w: Transfer) -> Bool:
        return alignment.aligned(w.copy(w.other), w.source.place(w.cell), w.target.place(w.cell))

    def lemmas(self, w: Transfer) -> list[Instance]:
        cell = cells.page_ordinal(w.target.view, w.cell.state)
        return [
            CellLiesInsideItsPage.at(CellOf(w.target.view, w.target.part, w.cell)),
            listed(w, w.other),
            *same_or_apart(w.target, cell, w.other),
            *same_page(w.source, cell, w.other),
        ]


class CopiesOfOtherLayersTouchNothing(Theorem[Rivals]):
    """A copy of another layer touches no cell of this layer, be it of the same group, another one, or another pool."""

    id = "P34"
    law = "alignment"
    variants = ("same group", "other group", "other pool")

    def world(self, source: Source, variant: str) -> Rivals:
        transfer = worlds.transfer(source)
        return Rivals(transfer, variant)

    def hypotheses(self, w: Rivals) -> list[Bool]:
        both = [*assumed.paired(w.transfer), *assumed.held(w.transfer)]
        if w.case == "same group":
            return [*both, *LayersOfAGroupAreDisjoint().hypotheses(group_pages(w.transfer))]
        return [*both, *DistinctBlocksAreDisjointAcrossViews().hypotheses(block_pages(w))]

    def claim(self, w: Rivals) -> Bool:
        transfer = w.transfer
        source, target = transfer.source.place(transfer.cell), transfer.target.place(transfer.cell)
        return alignment.aligned(transfer.rival_copy(transfer.other), source, target)

    def lemmas(self, w: Rivals) -> list[Instance]:
        target = w.transfer.target
        inside = CellLiesInsideItsPage.at(CellOf(target.view, target.part, w.transfer.cell))
        if w.case == "same group":
            return [inside, LayersOfAGroupAreDisjoint.at(group_pages(w.transfer))]
        return [inside, DistinctBlocksAreDisjointAcrossViews.at(block_pages(w))]

    def example(self, variant: str) -> Numbers:
        return examples.PADDED_TAIL


class CellsOfNoProducerStayUntouched(_OfATransfer):
    """A cached cell, which the producer need not hold, is touched by no copy of its layer."""

    id = "P35"
    law = "alignment"
    variants = ("unit-major", "state-major", "unit-major, sliding")

    def hypotheses(self, w: Transfer) -> list[Bool]:
        target = w.target
        end = (w.cell.state + 1) * target.view.tokens_per_state
        return [
            *assumed.paired(w),
            *assumed.cached(w),
            cells.holds(target.view, target.part, target.table, w.cell),
            end <= target.table.cached_tokens,
            *assumed.selected(w, w.other),
            assumed.reaches(w),
            distinct_blocks(target, self.page(w), w.other),
        ]

    def claim(self, w: Transfer) -> Bool:
        return alignment.untouched(w.copy(w.other), w.target.place(w.cell))

    def lemmas(self, w: Transfer) -> list[Instance]:
        return [
            CellLiesInsideItsPage.at(CellOf(w.target.view, w.target.part, w.cell)),
            StateLiesInItsPage.at(StateOf(w.target.view, w.cell.state)),
            listed(w, w.other),
            *same_or_apart(w.target, self.page(w), w.other),
            *page_bounds(w, self.page(w)),
            *both_orders(
                floor_div(w.target.table.cached_tokens, w.target.view.page_tokens), w.other, w.target.view.page_tokens
            ),
            *both_orders(
                floor_div(w.target.table.cached_tokens, w.target.view.page_tokens),
                self.page(w),
                w.target.view.page_tokens,
            ),
        ]

    def page(self, w: Transfer) -> Int:
        """Ordinal of the page of the cell."""
        return cells.page_ordinal(w.target.view, w.cell.state)

    def example(self, variant: str) -> Numbers:
        return examples.PADDED_TAIL.but(target__cached_tokens=128)


class CopiesOfALayerNeverMeet(_OfATransfer):
    """Two different copies of a layer write no byte both, so that none is moved twice or gets two values."""

    id = "P36"
    law = "single-writer"
    variants = ("", "sliding")

    def hypotheses(self, w: Transfer) -> list[Bool]:
        return [
            *assumed.paired(w),
            *assumed.retained(w),
            *assumed.selected(w, w.ordinal),
            *assumed.selected(w, w.other),
            assumed.reaches(w),
            distinct_blocks(w.target, w.ordinal, w.other),
        ]

    def claim(self, w: Transfer) -> Bool:
        first, second = w.copy(w.ordinal), w.copy(w.other)
        storage = w.target.view.storage
        return all_of(
            single_writer.same_value(first, second, storage, w.index),
            implies(negate(w.ordinal == w.other), economy.not_moved_twice(first, second, storage, w.index)),
        )

    def lemmas(self, w: Transfer) -> list[Instance]:
        return [
            listed(w, w.ordinal),
            listed(w, w.other),
            *same_or_apart(w.target, w.ordinal, w.other),
            *same_page(w.source, w.ordinal, w.other),
        ]

    def example(self, variant: str) -> Numbers:
        return examples.PADDED_TAIL.but(index=31 * 64)


def distinct_blocks(side: Side, first: Int, second: Int) -> Bool:
    """W7 at the blocks of two page ordinals."""
    return wellformed.blocks_distinct(side.table, side.block_ordinal(first), side.block_ordinal(second))


def listed(w: Transfer, ordinal: Int) -> Instance:
    """A selected page is listed."""
    return SelectedPagesAreListed.at(replace(w, ordinal=ordinal))


def same_or_apart(side: Side, first: Int, second: Int) -> list[Instance]:
    """Two page ordinals are one, or their pages lie apart: what W7 and W3 come to."""
    size = side.view.pages_per_block
    pages = Pages(size, side.block(first), side.number(first), side.block(second), side.number(second))
    return [
        BlocksExpandWithoutCollision.at(pages),
        *both_orders(side.page(first), side.page(second), side.view.page_stride),
        order(side.block_ordinal(first), side.block_ordinal(second), size),
    ]


def same_page(side: Side, first: Int, second: Int) -> list[Instance]:
    """Equal page ordinals have equal page ids, in equal places."""
    size = side.view.pages_per_block
    return [
        same_division(first, second, size),
        order(side.block(first), side.block(second), size),
        order(side.page(first), side.page(second), side.view.page_stride),
    ]


def group_pages(w: Transfer) -> PagesOfOneGroup:
    """The page of the cell, and the page of another layer of its group that is copied."""
    page = cells.page_ordinal(w.target.view, w.cell.state)
    return PagesOfOneGroup(w.target, w.target.page(page), w.rival, w.rival.page(w.other))


def block_pages(w: Rivals) -> TwoPages:
    """The page of the cell, and the page of a layer of another group that is copied; W8 makes their blocks differ."""
    target, rival, other = w.transfer.target, w.transfer.rival, w.transfer.other
    page = cells.page_ordinal(target.view, w.transfer.cell.state)
    second_pool = 0 if w.case == "other group" else 1
    return TwoPages(
        target, target.block(page), target.number(page), rival, rival.block(other), rival.number(other), 0, second_pool
    )
