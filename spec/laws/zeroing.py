# SPDX-License-Identifier: Apache-2.0
"""L9 zeroing: a zero spares what somebody needs, and a page past the prompt ends zero."""

from __future__ import annotations

from kvproof.spec.cells import BlockTable, PageView, block_cached, block_listed, block_needed, page_of, page_place
from kvproof.spec.logic import Bool, Int, all_of, floor_div, negate
from kvproof.spec.place import Place, byte_in, overlaps


def zero_spares(zero: Place, cell: Place) -> Bool:
    """(a) The zero does not hit this cached or required cell. (Foreign bytes: ``confinement.byte_confined``.)"""
    return negate(overlaps(zero, cell))


def page_owed(view: PageView, table: BlockTable, ordinal: Int, first_token: Int, tokens: Int) -> Bool:
    """(b) The page at this ordinal must end zero.

    It starts at or past ``tokens``, in an uncached, listed block that holds a needed token.
    """
    block = floor_div(ordinal, view.pages_per_block)
    return all_of(
        tokens <= ordinal * view.page_tokens,
        block_listed(table, block),
        block_needed(view, block, first_token, tokens),
        negate(block_cached(view.page_tokens * view.pages_per_block, block, table.cached_tokens)),
    )


def byte_zeroed(zero: Place, view: PageView, table: BlockTable, ordinal: Int, index: Int) -> Bool:
    """(b) The zero writes byte ``index`` of the page. For each byte of an owed page, some zero does."""
    page = page_place(view, page_of(view, table, ordinal))
    return byte_in(zero, page.storage, page.offset + index)
