# SPDX-License-Identifier: Apache-2.0
"""The pages of a request's blocks: cached, before the window, received, zeroed. Each exactly one of these."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from kvproof.proofs import assumed, examples, worlds
from kvproof.proofs.claim import Instance, Theorem
from kvproof.proofs.lemmas.division import ceiling
from kvproof.proofs.lemmas.products import both_orders, not_negative, order, positive
from kvproof.proofs.source import Numbers, Source
from kvproof.proofs.theorems.alignment import distinct_blocks, listed, same_or_apart
from kvproof.proofs.theorems.cells import CellLiesInsideItsPage, CellOf, StateLiesInItsPage, StateOf
from kvproof.proofs.theorems.selection import (
    SelectedPagesIncludeRequiredStates,
    SelectedPagesIncludeRequiredStatesInAWindow,
    needed_from,
    page_bounds,
)
from kvproof.proofs.worlds import Transfer
from kvproof.spec import cells
from kvproof.spec import place as places
from kvproof.spec.laws import single_writer, zeroing
from kvproof.spec.logic import Bool, Int, all_of, any_of, floor_div, implies, negate


class _Zeroing(Theorem[Transfer]):
    """A theorem over a transfer whose last block has a page past the prompt."""

    law = "zeroing"
    variants: ClassVar[tuple[str, ...]] = ("", "sliding")

    def world(self, source: Source, variant: str) -> Transfer:
        return worlds.transfer(source, variant)

    def example(self, variant: str) -> Numbers:
        return examples.REVERSE.but(other=3)


class Classes(NamedTuple):
    """Where a page belongs."""

    cached: Bool
    before_window: Bool
    received: Bool
    zeroed: Bool


class PagesOfNeededBlocksArePartitioned(_Zeroing):
    """A page of a block that holds a needed token is cached, before the window, received or zeroed: exactly one.

    Pages of two different classes share no byte. A page is zeroed exactly where the law owes it.
    """

    id = "P25"

    def hypotheses(self, w: Transfer) -> list[Bool]:
        block = w.target.block_ordinal(w.ordinal)
        return [
            *assumed.paired(w),
            *assumed.cached(w),
            assumed.reaches(w),
            0 <= w.ordinal,
            cells.block_listed(w.target.table, block),
            cells.block_needed(w.target.view, block, w.first_token, w.tokens),
            cells.block_listed(w.target.table, w.target.block_ordinal(w.other)),
            negate(w.ordinal == w.other),
            distinct_blocks(w.target, w.ordinal, w.other),
        ]

    def claim(self, w: Transfer) -> Bool:
        cached, before, received, zeroed = classes(w, w.ordinal)
        owed = zeroing.page_owed(w.target.view, w.target.table, w.ordinal, needed_from(w), w.tokens)
        place, other = w.target.zero(w.ordinal), w.target.zero(w.other)
        return all_of(
            any_of(cached, before, received, zeroed),
            negate(all_of(cached, any_of(before, received, zeroed))),
            negate(all_of(before, any_of(received, zeroed))),
            negate(all_of(received, zeroed)),
            implies(owed, zeroed),
            implies(zeroed, owed),
            places.disjoint(place, other),
        )

    def lemmas(self, w: Transfer) -> list[Instance]:
        return [*block_bounds(w, w.ordinal), *same_or_apart(w.target, w.ordinal, w.other)]


class OwedPagesAreZeroed(_Zeroing):
    """Each byte of a page past the prompt, in an uncached block that holds a needed token, is zeroed."""

    id = "P40"

    def hypotheses(self, w: Transfer) -> list[Bool]:
        return [
            *assumed.paired(w),
            *assumed.cached(w),
            assumed.reaches(w),
            zeroing.page_owed(w.target.view, w.target.table, w.other, needed_from(w), w.tokens),
            0 <= w.index,
            w.index < w.target.view.page_bytes,
        ]

    def claim(self, w: Transfer) -> Bool:
        view, table = w.target.view, w.target.table
        return all_of(
            classes(w, w.other).zeroed,
            zeroing.byte_zeroed(w.target.zero(w.other), view, table, w.other, w.index),
        )

    def lemmas(self, w: Transfer) -> list[Instance]:
        return block_bounds(w, w.other)


class ZeroedPagesAreOwed(_Zeroing):
    """Only such pages are zeroed: each lies past the prompt, in a listed, uncached block that holds a needed token."""

    id = "P46"

    def hypotheses(self, w: Transfer) -> list[Bool]:
        return [
            *assumed.paired(w),
            *assumed.cached(w),
            assumed.reaches(w),
            w.first_token < w.tokens,
            classes(w, w.other).zeroed,
        ]

    def claim(self, w: Transfer) -> Bool:
        return zeroing.page_owed(w.target.view, w.target.table, w.other, needed_from(w), w.tokens)

    def lemmas(self, w: Transfer) -> list[Instance]:
        return block_bounds(w, w.other)


class ZeroesSpareWhatIsNeeded(_Zeroing):
    """A zero hits no required cell, no cached one, and nothing that a copy writes."""

    id = "P41"
    variants = ("unit-major", "state-major", "unit-major, sliding")

    def hypotheses(self, w: Transfer) -> list[Bool]:
        target, state = w.target, w.cell.state
        end = (state + 1) * target.view.tokens_per_state
        return [
            *assumed.paired(w),
            *assumed.cached(w),
            assumed.reaches(w),
            w.first_token < w.tokens,
            classes(w, w.other).zeroed,
            cells.holds(target.view, target.part, target.table, w.cell),
            any_of(
                cells.state_required(target.view, state, needed_from(w), w.tokens),
                end <= target.table.cached_tokens,
            ),
            *assumed.selected(w, w.ordinal),
            distinct_blocks(target, w.ordinal, w.other),
            distinct_blocks(target, self.page(w), w.other),
        ]

    def claim(self, w: Transfer) -> Bool:
        zero = w.target.zero(w.other)
        return all_of(
            zeroing.zero_spares(zero, w.target.place(w.cell)),
            single_writer.not_also_zeroed(w.copy(w.ordinal), zero, w.target.view.storage, w.index),
        )

    def lemmas(self, w: Transfer) -> list[Instance]:
        view, page = w.target.view, self.page(w)
        selection = (
            SelectedPagesIncludeRequiredStates if w.window is None else SelectedPagesIncludeRequiredStatesInAWindow
        )
        return [
            selection.at(w),
            StateLiesInItsPage.at(StateOf(view, w.cell.state)),
            CellLiesInsideItsPage.at(CellOf(view, w.target.part, w.cell)),
            listed(w, w.ordinal),
            *block_bounds(w, w.other),
            *block_bounds(w, page),
            *same_or_apart(w.target, w.ordinal, w.other),
            *same_or_apart(w.target, page, w.other),
            order(page, w.other, view.page_tokens),
        ]

    def page(self, w: Transfer) -> Int:
        """Ordinal of the page of the cell."""
        return cells.page_ordinal(w.target.view, w.cell.state)

    def example(self, variant: str) -> Numbers:
        return examples.REVERSE.but(other=3, index=10 * 128 + 64)


def classes(w: Transfer, ordinal: Int) -> Classes:
    """The class of a page: what the consumer holds, needs, is sent by the reference and zeroes with it."""
    size, cached = w.target.view.page_tokens, w.target.table.cached_tokens
    return Classes(
        cached=ordinal * size + size <= cached,
        before_window=all_of(cached <= ordinal * size, ordinal < w.first),
        received=all_of(w.first <= ordinal, ordinal < w.end),
        zeroed=all_of(w.end <= ordinal, ordinal < w.end_of_blocks),
    )


def block_bounds(w: Transfer, ordinal: Int) -> list[Instance]:
    """How a page, its block and their tokens lie to the prompt's end and to the cached prefix."""
    view, size = w.target.view, w.target.block_tokens
    block, number = w.target.block_ordinal(ordinal), w.target.number(ordinal)
    blocks = floor_div(w.tokens + size - 1, size)
    cached = floor_div(w.target.table.cached_tokens, view.page_tokens)
    return [
        *page_bounds(w, ordinal),
        positive(view.page_tokens, view.pages_per_block),
        ceiling(w.tokens, size),
        ceiling(w.tokens, view.page_tokens),
        order(ordinal, block * view.pages_per_block + number, view.page_tokens),
        order(number, view.pages_per_block, view.page_tokens),
        not_negative(number, view.page_tokens),
        *both_orders(block, blocks, size),
        *both_orders(block, blocks, view.pages_per_block),
        *both_orders(cached, ordinal, view.page_tokens),
        *both_orders(cached, w.first, view.page_tokens),
        order(block, w.target.table.first, size),
        order(w.target.table.first + w.target.table.count, block, size),
    ]
