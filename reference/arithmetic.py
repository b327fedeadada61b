# SPDX-License-Identifier: Apache-2.0
"""The closed forms of the reference: what it computes with, on ints and, in the proofs, on solver terms.

A connector's own arithmetic, by list index and region; nothing here goes through cells or ``locate``.
"""

from __future__ import annotations

from collections.abc import Callable

from kvproof.spec.logic import Bool, Int, all_of, ceil_div, choose, floor_div, maximum, mod
from kvproof.spec.place import Place
from kvproof.spec.plan import Copy
from kvproof.spec.tables import Region


def first_token(cached_tokens: Int, tokens: Int, window_tokens: Int | None, retained_tokens: Int) -> Int:
    """First token that decoding needs and the consumer does not hold yet."""
    if window_tokens is None:
        return cached_tokens
    return maximum(cached_tokens, tokens + 1 - window_tokens - retained_tokens)


def page_tokens(block_tokens: Int, pages_per_block: Int) -> Int:
    """Tokens in one page of a block."""
    return floor_div(block_tokens, pages_per_block)


def page_count(blocks: Int, pages_per_block: Int) -> Int:
    """Pages of a view: those of every block of its pool."""
    return blocks * pages_per_block


def first_page(token: Int, page_tokens: Int) -> Int:
    """Ordinal of the page that holds a token."""
    return floor_div(token, page_tokens)


def end_page(tokens: Int, page_tokens: Int) -> Int:
    """Ordinal after the last page that holds one of the first ``tokens`` tokens."""
    return ceil_div(tokens, page_tokens)


def end_of_blocks(tokens: Int, block_tokens: Int, pages_per_block: Int) -> Int:
    """Page ordinal after the block that holds the last token: pages from ``end_page`` up to here are zeroed."""
    return ceil_div(tokens, block_tokens) * pages_per_block


def expand(block: Int, pages_per_block: Int, page: Int) -> Int:
    """Page id of page number ``page`` of a logical block."""
    return block * pages_per_block + page


def page_at(ordinal: Int, pages_per_block: Int, first: Int, block_at: Callable[[Int], Int]) -> Int:
    """Page id at a page ordinal; ``block_at(i)`` is the i-th listed block, the first of which has ordinal ``first``."""
    index = floor_div(ordinal, pages_per_block) - first
    return expand(block_at(index), pages_per_block, mod(ordinal, pages_per_block))


def next_start(start: Int, pages: Int) -> Int:
    """First descriptor id of the region after one that starts at ``start``."""
    return start + pages


def descriptor_id(start: Int, page: Int) -> Int:
    """Id of the descriptor of a page in a region whose first descriptor is ``start``."""
    return start + page


def page_of_id(start: Int, descriptor: Int) -> Int:
    """The page that a descriptor id names in the region whose first descriptor is ``start``."""
    return descriptor - start


def state_descriptor_id(section_start: Int, row: Int, blocks: Int, block: Int) -> Int:
    """Id of a block's descriptor in row ``row`` of a section whose rows all count ``blocks`` blocks.

    What ``next_start`` and ``descriptor_id`` add up to for such a section (P39), as connectors write it.
    """
    return section_start + row * blocks + block


def is_exact_alias(view: Region, region: Region) -> Bool:
    """Fold rule, own pages: same base, stride, length, page count and memory."""
    return all_of(
        view.storage == region.storage,
        view.offset == region.offset,
        view.bytes == region.bytes,
        view.stride == region.stride,
        view.pages == region.pages,
        view.memory == region.memory,
    )


def lies_in_row(view: Region, row: Region) -> Bool:
    """Fold rule, rows: the view's page p lies in the row p, of equal stride, page count and memory."""
    return all_of(
        view.storage == row.storage,
        row.offset <= view.offset,
        view.offset + view.bytes <= row.offset + row.bytes,
        view.stride == row.stride,
        view.pages == row.pages,
        view.memory == row.memory,
    )


def row_fits(row: Region, storage_bytes: Int) -> Bool:
    """All rows of a storage lie inside it."""
    return row.pages * row.stride <= storage_bytes


def offset_within(view_offset: Int, region_offset: Int) -> Int:
    """Where a view starts within the descriptors of the region that stands for it."""
    return view_offset - region_offset


def part_bytes(count: Int, unit_bytes: Int) -> Int:
    """Bytes of the units of a part that a worker holds, in the page of a ssm group."""
    return count * unit_bytes


def next_part(start: Int, length: Int) -> Int:
    """Where the part after one of ``length`` bytes at ``start`` begins: parts lie without gaps."""
    return start + length


def folds(view: Region, region: Region, is_row: Bool) -> Bool:
    """The reference's fold rule: into a row that holds it, or into its exact alias. Nothing else folds."""
    return choose(is_row, lies_in_row(view, region), is_exact_alias(view, region))


def member_agrees(source_bytes: Int, source_offset: Int, target_bytes: Int, target_offset: Int) -> Bool:
    """Pairing rule for one member: regions of equal length in which it starts at the same offset."""
    return all_of(source_bytes == target_bytes, source_offset == target_offset)


def copy_of(source: Region, source_page: Int, target: Region, target_page: Int) -> Copy:
    """What one pair of descriptor ids moves: the target descriptor's length, from the source descriptor's start."""
    return Copy(
        Place(source.storage, source.offset + source_page * source.stride, target.bytes),
        Place(target.storage, target.offset + target_page * target.stride, target.bytes),
    )
