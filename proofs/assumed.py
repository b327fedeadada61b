# SPDX-License-Identifier: Apache-2.0
"""Hypotheses that many claims share, each made of kernels of ``kvproof.spec.wellformed``."""

from __future__ import annotations

from kvproof.proofs.worlds import Side, Transfer
from kvproof.spec import cells, wellformed
from kvproof.spec.cells import PageView, PartView
from kvproof.spec.logic import Bool, Int


def page_layout(view: PageView, part: PartView) -> list[Bool]:
    """W1, W4: positive sizes, and the part inside the page."""
    # The units of the whole model are those up to the last one held: no proof needs more of them.
    units = part.first + part.count
    return [
        wellformed.sizes_positive(view),
        wellformed.units_held(part, units),
        wellformed.part_in_page(view, part),
    ]


def unit_of(part: PartView, unit: Int) -> list[Bool]:
    """The unit is one that the part holds."""
    return [part.first <= unit, unit < part.first + part.count]


def paired(w: Transfer) -> list[Bool]:
    """W1, W3, W4 on both sides, W16."""
    return [
        *page_layout(w.source.view, w.source.part),
        *page_layout(w.target.view, w.target.part),
        wellformed.page_in_stride(w.source.view),
        wellformed.page_in_stride(w.target.view),
        wellformed.pages_alike(w.source.view, w.target.view),
        wellformed.parts_alike(w.source.part, w.target.part),
    ]


def cached(w: Transfer) -> list[Bool]:
    """W14: the cached prefix is a prefix of whole pages; a window is not negative."""
    count = w.target.table.cached_tokens
    return [
        wellformed.cached_in_prompt(count, w.tokens),
        wellformed.cached_whole_pages(count, w.target.view.page_tokens),
        *retained(w),
    ]


def retained(w: Transfer) -> list[Bool]:
    """W1: the window is positive."""
    if w.window is None:
        return []
    return [0 < w.window, 0 <= w.retained]


def selected(w: Transfer, ordinal: Int) -> list[Bool]:
    """The reference selects the page at this ordinal."""
    return [w.first_token < w.tokens, w.first <= ordinal, ordinal < w.end]


def reaches(w: Transfer) -> Bool:
    """W13, the consumer's table reaches from the first needed token to the end of the prompt."""
    return wellformed.table_reaches(w.target.table, w.target.block_tokens, w.first_token, w.tokens)


def held(w: Transfer) -> list[Bool]:
    """Both sides hold the cell."""
    return [
        cells.holds(w.source.view, w.source.part, w.source.table, w.cell),
        cells.holds(w.target.view, w.target.part, w.target.table, w.cell),
    ]


def in_pool(side: Side, ordinal: Int) -> Bool:
    """W6 at the block of a page ordinal."""
    return wellformed.block_in_pool(side.block(ordinal), side.blocks)
