# SPDX-License-Identifier: Apache-2.0
"""Well-formed worlds: the statements W1–W20 as kernels, used by decoder, judge and proofs alike.

W18 (sources are stable, the final value of a byte comes from one of its writes, replicas agree) is assumed, never
checked; every report says so.
"""

from __future__ import annotations

from kvproof.spec.cells import BlockTable, PageView, PartView, block_listed
from kvproof.spec.laws.bounds import address_fits, id_in_pool, span_in_storage
from kvproof.spec.logic import Bool, Int, all_of, any_of, floor_div, implies, mod, negate
from kvproof.spec.place import Place, disjoint


def sizes_positive(view: PageView) -> Bool:
    """W1: sizes, counts and divisors are positive, offsets are not negative."""
    return all_of(
        0 <= view.offset,
        0 < view.page_bytes,
        0 < view.page_stride,
        0 < view.pages_per_block,
        0 < view.states_per_page,
        0 < view.tokens_per_state,
    )


def tokens_divide(block_tokens: Int, pages_per_block: Int, tokens_per_state: Int) -> Bool:
    """W2: ``pages_per_block`` divides ``block_tokens``, ``tokens_per_state`` the page's tokens."""
    page_tokens = floor_div(block_tokens, pages_per_block)
    return all_of(mod(block_tokens, pages_per_block) == 0, mod(page_tokens, tokens_per_state) == 0)


def page_in_stride(view: PageView) -> Bool:
    """W3: a page ends before the next begins."""
    return view.page_bytes <= view.page_stride


def units_held(part: PartView, units: Int) -> Bool:
    """W4: the units held are units of the model."""
    return all_of(0 <= part.first, 0 < part.count, 0 < part.unit_bytes, part.first + part.count <= units)


def part_in_page(view: PageView, part: PartView) -> Bool:
    """W4: the part ends inside the page. Parts are laid end to end, so that they are disjoint."""
    return all_of(0 <= part.start, part.start + part_bytes(view, part) <= view.page_bytes)


def part_bytes(view: PageView, part: PartView) -> Int:
    """Bytes of the part in a page."""
    return part.count * view.states_per_page * part.unit_bytes


def view_in_storage(view: PageView, storage_bytes: Int) -> Bool:
    """W5: the last page ends inside the storage."""
    last = Place(view.storage, view.offset + (view.pages - 1) * view.page_stride, view.page_bytes)
    return implies(0 < view.pages, span_in_storage(last, storage_bytes))


def storage_addressable(base: Int, storage_bytes: Int) -> Bool:
    """W5: the storage's addresses fit 64 bits."""
    return address_fits(base, 0, storage_bytes)


def block_in_pool(block: Int, blocks: Int) -> Bool:
    """W6: a listed id is one of its pool's."""
    return id_in_pool(block, blocks)


def blocks_distinct(table: BlockTable, first: Int, second: Int) -> Bool:
    """W7: two ordinals of one table that hold something name two blocks. (W8: ``groups_distinct``.)"""
    both = all_of(block_listed(table, first), block_listed(table, second))
    return implies(all_of(both, table.block(first) == table.block(second)), first == second)


def groups_distinct(first_table: BlockTable, first: Int, second_table: BlockTable, second: Int) -> Bool:
    """W8: two groups of one pool never name the same block."""
    both = all_of(block_listed(first_table, first), block_listed(second_table, second))
    return implies(both, negate(first_table.block(first) == second_table.block(second)))


def pitch(view: PageView) -> Int:
    """Bytes from a block to the next."""
    return view.pages_per_block * view.page_stride


def block_end(view: PageView) -> Int:
    """Offset after the last page of block 0."""
    return view.offset + (view.pages_per_block - 1) * view.page_stride + view.page_bytes


def one_frame(first: PageView, second: PageView) -> Bool:
    """W9, second case: equal pitch, and both block-0 footprints lie inside one window of a pitch."""
    return all_of(
        pitch(first) == pitch(second),
        block_end(first) - second.offset <= pitch(first),
        block_end(second) - first.offset <= pitch(first),
        block_end(first) - first.offset <= pitch(first),
        block_end(second) - second.offset <= pitch(first),
    )


def view_range(view: PageView) -> Place:
    """All bytes from the view's first page to the end of its last. Needs a page."""
    return Place(view.storage, view.offset, (view.pages - 1) * view.page_stride + view.page_bytes)


def framed(first: PageView, second: PageView, same_pool: Bool) -> Bool:
    """W9: two layers of one storage occupy disjoint ranges, or share pool and frame. So blocks never share a byte.

    With ``same_pool`` false this is W11 too: layers of different pools share no byte.
    """
    return any_of(disjoint(view_range(first), view_range(second)), all_of(same_pool, one_frame(first, second)))


def layers_disjoint(first: PageView, second: PageView) -> Bool:
    """W10: two layers of one group, in one frame of equal stride, have disjoint pages."""
    shift = mod(second.offset - first.offset, first.page_stride)
    return all_of(first.page_bytes <= shift, shift + second.page_bytes <= first.page_stride)


def table_reaches(table: BlockTable, block_tokens: Int, first_token: Int, tokens: Int) -> Bool:
    """W13: the first listed token is not past the first needed one, and the last block reaches ``tokens``."""
    return implies(
        first_token < tokens,
        all_of(
            table.first * block_tokens <= first_token,
            tokens <= (table.first + table.count) * block_tokens,
        ),
    )


def token_listed(table: BlockTable, block_tokens: Int, token: Int) -> Bool:
    """W13: the token lies in a listed block that is not null."""
    return block_listed(table, floor_div(token, block_tokens))


def cached_in_prompt(cached_tokens: Int, tokens: Int) -> Bool:
    """W14: the cached prefix is a prefix."""
    return all_of(0 <= cached_tokens, cached_tokens <= tokens)


def cached_whole_pages(cached_tokens: Int, page_tokens: Int) -> Bool:
    """W14: the cached prefix ends at a page boundary."""
    return mod(cached_tokens, page_tokens) == 0


def cached_whole_states(cached_tokens: Int, tokens_per_state: Int) -> Bool:
    """W15: the cached prefix ends at a state boundary. Follows from W14 and W2."""
    return mod(cached_tokens, tokens_per_state) == 0


def pages_alike(source: PageView, target: PageView) -> Bool:
    """W16: paired layers have equal page bytes and store equal states."""
    return all_of(
        source.page_bytes == target.page_bytes,
        source.states_per_page == target.states_per_page,
        source.tokens_per_state == target.tokens_per_state,
    )


def parts_alike(source: PartView, target: PartView) -> Bool:
    """W16: paired parts hold equal units of equal bytes at the same place. Orders are compared as names."""
    return all_of(
        source.start == target.start,
        source.first == target.first,
        source.count == target.count,
        source.unit_bytes == target.unit_bytes,
    )


def live_given(live: Int, listed: Int) -> Bool:
    """W19: the live ssm or ring block is one of those listed."""
    return all_of(0 <= live, live < listed)


def counts_add_up(start: Int, pages: Int, next_start: Int) -> Bool:
    """W20: page counts are not negative, and section starts are prefix sums of them."""
    return all_of(0 <= pages, next_start == start + pages)
