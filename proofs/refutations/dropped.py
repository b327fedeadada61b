# SPDX-License-Identifier: Apache-2.0
"""Conditions of a well-formed world, dropped one at a time: without each, the reference's plan breaks a law."""

from __future__ import annotations

from typing import NamedTuple

from kvproof.proofs import assumed, worlds
from kvproof.proofs.claim import Refutation
from kvproof.proofs.source import Source
from kvproof.proofs.theorems.alignment import CopiesOfALayerAreAligned, Rivals, block_pages
from kvproof.proofs.theorems.alignment import CopiesOfOtherLayersTouchNothing as OtherLayers
from kvproof.proofs.theorems.separation import pooled
from kvproof.proofs.worlds import Transfer
from kvproof.reference import arithmetic
from kvproof.spec import cells, wellformed
from kvproof.spec.cells import PageView
from kvproof.spec.laws import single_writer
from kvproof.spec.logic import Bool, Int, all_of, floor_div, negate


class Undivided(NamedTuple):
    """A view whose page need not be whole states, and a state of it."""

    view: PageView
    page_tokens: Int
    state: Int
    first_token: Int
    tokens: Int


class StatesMayStraddlePages(Refutation[Undivided]):
    """The page of each required state is selected even where a page need not hold whole states (W2 dropped)."""

    id = "R31"
    law = "coverage"

    def world(self, source: Source, variant: str) -> Undivided:
        number = source.integer
        page_tokens, tokens_per_state = number("page_tokens"), number("tokens_per_state")
        states = floor_div(page_tokens, tokens_per_state)
        view = PageView(0, 0, 1, 1, 1, 1, states, tokens_per_state)
        return Undivided(view, page_tokens, number("state"), number("first_token"), number("tokens"))

    def hypotheses(self, w: Undivided) -> list[Bool]:
        return [
            wellformed.sizes_positive(w.view),
            0 < w.page_tokens,
            0 <= w.state,
            cells.state_required(w.view, w.state, w.first_token, w.tokens),
        ]

    def claim(self, w: Undivided) -> Bool:
        page = cells.page_ordinal(w.view, w.state)
        first = arithmetic.first_page(w.first_token, w.page_tokens)
        return all_of(first <= page, page < arithmetic.end_page(w.tokens, w.page_tokens))

    def words(self, w: Undivided) -> str:
        return f"pages of {w.page_tokens} tokens, states of {w.view.tokens_per_state}"


class _Dropped(Refutation[Transfer]):
    """A theorem over a transfer without one of its hypotheses."""

    def world(self, source: Source, variant: str) -> Transfer:
        return worlds.transfer(source, variant)


class PagesMayOverlap(_Dropped):
    """Copies of a layer bring each cell its own bytes even where a page reaches into the next (W3 dropped)."""

    id = "R32"
    law = "alignment"

    def hypotheses(self, w: Transfer) -> list[Bool]:
        page = cells.page_ordinal(w.target.view, w.cell.state)
        distinct = wellformed.blocks_distinct
        return [
            *assumed.page_layout(w.source.view, w.source.part),
            *assumed.page_layout(w.target.view, w.target.part),
            wellformed.page_in_stride(w.source.view),
            *assumed.held(w),
            *assumed.selected(w, w.other),
            assumed.reaches(w),
            distinct(w.target.table, w.target.block_ordinal(page), w.target.block_ordinal(w.other)),
        ]

    def claim(self, w: Transfer) -> Bool:
        return CopiesOfALayerAreAligned().claim(w)


class TablesMayRepeatABlock(_Dropped):
    """Two pages of the source never go to one page of the target even where a table repeats a block (W7 dropped)."""

    id = "R07"
    law = "single-writer"

    def hypotheses(self, w: Transfer) -> list[Bool]:
        return [
            *assumed.paired(w),
            *assumed.selected(w, w.ordinal),
            *assumed.selected(w, w.other),
            assumed.reaches(w),
        ]

    def claim(self, w: Transfer) -> Bool:
        first, second = w.copy(w.ordinal), w.copy(w.other)
        return single_writer.same_value(first, second, w.target.view.storage, w.index)


class RepeatedBlocksMayBeZeroed(_Dropped):
    """No byte is both copied and zeroed even where a table repeats a block (W7 dropped)."""

    id = "R08"
    law = "single-writer"

    def hypotheses(self, w: Transfer) -> list[Bool]:
        return [
            *assumed.paired(w),
            *assumed.selected(w, w.ordinal),
            assumed.reaches(w),
            w.end <= w.other,
            w.other < w.end_of_blocks,
        ]

    def claim(self, w: Transfer) -> Bool:
        copy, zero = w.copy(w.ordinal), w.target.zero(w.other)
        return single_writer.not_also_zeroed(copy, zero, w.target.view.storage, w.index)


class RepeatedBlocksAreMisaligned(_Dropped):
    """Copies of a layer bring each cell its own bytes even where a table repeats a block (W7 dropped)."""

    id = "R33"
    law = "alignment"

    def hypotheses(self, w: Transfer) -> list[Bool]:
        return [*assumed.paired(w), *assumed.held(w), *assumed.selected(w, w.other), assumed.reaches(w)]

    def claim(self, w: Transfer) -> Bool:
        return CopiesOfALayerAreAligned().claim(w)


class LayersMayShareNoFrame(Refutation[Rivals]):
    """A copy of a layer of another group touches no cell of this one even where they share no frame (W9 dropped)."""

    id = "R34"
    law = "alignment"

    def world(self, source: Source, variant: str) -> Rivals:
        return Rivals(worlds.transfer(source), "other group")

    def hypotheses(self, w: Rivals) -> list[Bool]:
        pages = block_pages(w)
        return [
            *assumed.paired(w.transfer),
            *assumed.held(w.transfer),
            *pooled(pages.first, pages.first_block, pages.first_page),
            *pooled(pages.second, pages.second_block, pages.second_page),
            negate(pages.first_block == pages.second_block),
        ]

    def claim(self, w: Rivals) -> Bool:
        return OtherLayers().claim(w)


class TablesMayBeShort(_Dropped):
    """Every selected page is listed even where the table need not reach the prompt's end (W13 dropped)."""

    id = "R35"
    law = "coverage"

    def hypotheses(self, w: Transfer) -> list[Bool]:
        return [wellformed.sizes_positive(w.target.view), 0 < w.target.table.count, *assumed.selected(w, w.ordinal)]

    def claim(self, w: Transfer) -> Bool:
        return cells.block_listed(w.target.table, w.target.block_ordinal(w.ordinal))


class NullBlocksMayBeListed(_Dropped):
    """Every selected page lies in a block that holds something even where only the table's length counts (W13)."""

    id = "R36"
    law = "coverage"
    variants = ("null",)

    def hypotheses(self, w: Transfer) -> list[Bool]:
        return [wellformed.sizes_positive(w.target.view), assumed.reaches(w), *assumed.selected(w, w.ordinal)]

    def claim(self, w: Transfer) -> Bool:
        return cells.block_listed(w.target.table, w.target.block_ordinal(w.ordinal))
