# SPDX-License-Identifier: Apache-2.0
"""Cells, the smallest things that must arrive: who holds one, where it lies, who needs it.

All functions here are kernels: quantifier-free and loop-free over ints or solver terms (see ``kvproof.spec.logic``).
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kvproof.spec.logic import Bool, Int, all_of, floor_div, maximum, mod, negate
from kvproof.spec.place import Place, StorageId


class PartView(msgspec.Struct, frozen=True):
    """A part as it lies in the page: ``start`` bytes from the page's start, ``count`` units held from ``first`` on."""

    start: Int
    first: Int
    count: Int
    unit_bytes: Int
    order: str


class PageView(msgspec.Struct, frozen=True):
    """The pages of a layer: page p is ``[offset + p * page_stride, + page_bytes)``; ``pages`` of them.

    A page stores ``states_per_page`` states of ``tokens_per_state`` tokens each. An opaque page, and the page of an
    ssm or ring block, is one state.
    """

    storage: StorageId
    offset: Int
    page_bytes: Int
    page_stride: Int
    pages: Int
    pages_per_block: Int
    states_per_page: Int
    tokens_per_state: Int

    @property
    def page_tokens(self) -> Int:
        """Tokens in a page. Derived, so that proofs need no equation for it."""
        return self.states_per_page * self.tokens_per_state


class BlockTable(msgspec.Struct, frozen=True):
    """A group's blocks: ``block(ordinal)`` for ordinals in ``[first, first + count)``; ``null`` holds nothing.

    ``block`` is total: outside that range it answers some integer that nobody may use.
    """

    block: Callable[[Int], Int]
    first: Int
    count: Int
    cached_tokens: Int = 0
    null: Int | None = None


class Cell(msgspec.Struct, frozen=True):
    """One unit of one state (state 0 for ssm and ring blocks; the page ordinal for opaque pages)."""

    unit: Int
    state: Int


def page_ordinal(view: PageView, state: Int) -> Int:
    """Ordinal of the page that stores the state."""
    return floor_div(state * view.tokens_per_state, view.page_tokens)


def state_in_page(view: PageView, state: Int) -> Int:
    """Index of the state within its page."""
    return floor_div(mod(state * view.tokens_per_state, view.page_tokens), view.tokens_per_state)


def page_of(view: PageView, table: BlockTable, ordinal: Int) -> Int:
    """Page id at a page ordinal, through the table."""
    block = table.block(floor_div(ordinal, view.pages_per_block))
    return block * view.pages_per_block + mod(ordinal, view.pages_per_block)


def page_place(view: PageView, page: Int) -> Place:
    """The bytes of a page."""
    return Place(view.storage, view.offset + page * view.page_stride, view.page_bytes)


def within_page(view: PageView, part: PartView, cell: Cell) -> Int:
    """Bytes from the start of its page to the cell."""
    unit, state = cell.unit - part.first, state_in_page(view, cell.state)
    if part.order == "unit-major":
        return part.start + (unit * view.states_per_page + state) * part.unit_bytes
    return part.start + (state * part.count + unit) * part.unit_bytes


def block_listed(table: BlockTable, ordinal: Int) -> Bool:
    """The table lists a block that holds something at this block ordinal."""
    listed = all_of(table.first <= ordinal, ordinal < table.first + table.count)
    if table.null is None:
        return listed
    return all_of(listed, negate(table.block(ordinal) == table.null))


def holds(view: PageView, part: PartView, table: BlockTable, cell: Cell) -> Bool:
    """The worker stores this cell."""
    block = floor_div(page_ordinal(view, cell.state), view.pages_per_block)
    unit_held = all_of(part.first <= cell.unit, cell.unit < part.first + part.count)
    return all_of(unit_held, 0 <= cell.state, block_listed(table, block))


def locate(view: PageView, part: PartView, table: BlockTable, cell: Cell) -> Place:
    """Where the cell lies. Meaningful only where ``holds`` is true."""
    page = page_place(view, page_of(view, table, page_ordinal(view, cell.state)))
    return Place(page.storage, page.offset + within_page(view, part, cell), part.unit_bytes)


def first_needed_token(cached_tokens: Int, tokens: Int, window_tokens: Int | None, retained_tokens: Int) -> Int:
    """The needed tokens of a group are those from here up to ``tokens``, exclusive."""
    if window_tokens is None:
        return cached_tokens
    return maximum(cached_tokens, tokens - window_tokens + 1 - retained_tokens)


def state_required(view: PageView, state: Int, first_token: Int, tokens: Int) -> Bool:
    """A state is required if its last token is needed: an incomplete last state never is."""
    last = (state + 1) * view.tokens_per_state - 1
    return all_of(first_token <= last, last < tokens)


def opaque_required(view: PageView, ordinal: Int, first_token: Int, tokens: Int) -> Bool:
    """An opaque page is required if it holds any needed token."""
    start, end = ordinal * view.page_tokens, (ordinal + 1) * view.page_tokens
    return all_of(first_token < end, start < tokens, first_token < tokens)


def live_required(cached_tokens: Int, tokens: Int) -> Bool:
    """The live block of an ssm or ring group is required unless the whole prompt is cached."""
    return cached_tokens < tokens


def page_needed(view: PageView, ordinal: Int, first_token: Int, tokens: Int) -> Bool:
    """The page holds a needed token, whatever ``tokens_per_state``."""
    return opaque_required(view, ordinal, first_token, tokens)


def block_needed(view: PageView, ordinal: Int, first_token: Int, tokens: Int) -> Bool:
    """The block at this block ordinal holds a needed token."""
    block_tokens = view.page_tokens * view.pages_per_block
    return all_of(first_token < (ordinal + 1) * block_tokens, ordinal * block_tokens < tokens, first_token < tokens)


def block_cached(block_tokens: Int, ordinal: Int, cached_tokens: Int) -> Bool:
    """All tokens of the attention or sliding block at this block ordinal are cached."""
    return (ordinal + 1) * block_tokens <= cached_tokens
