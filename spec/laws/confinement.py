# SPDX-License-Identifier: Apache-2.0
"""L3 confinement: what is written stays in the request's own, uncached blocks."""

from __future__ import annotations

from kvproof.spec.cells import PageView, page_place
from kvproof.spec.logic import Bool, Int
from kvproof.spec.place import Place, byte_in


def byte_confined(write: Place, index: Int, extent: Place) -> Bool:
    """Byte ``index`` of the write lies in the extent.

    L3: for each byte written, some extent of an own, uncached block: its pages in every layer of its pool
    (``page_extent``) and, in a block-outer storage, their rows (``row_extent``).
    """
    return byte_in(extent, write.storage, write.offset + index)


def page_extent(view: PageView, block: Int, page: Int) -> Place:
    """Page number ``page`` (``0 <= page < pages_per_block``) of a block in a layer of its pool."""
    return page_place(view, block * view.pages_per_block + page)


def row_extent(view: PageView, block: Int, page: Int) -> Place:
    """The row of that page, where the view's storage is block-outer."""
    return row_place(view, block * view.pages_per_block + page)


def row_place(view: PageView, page_id: Int) -> Place:
    """The row of a page: in a block-outer storage rows lie end to end, a stride each."""
    return Place(view.storage, page_id * view.page_stride, view.page_stride)
