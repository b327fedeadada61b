# SPDX-License-Identifier: Apache-2.0
"""Which bytes of the consumer are the request's own, which are useful, and which owe a zero."""

from __future__ import annotations

from collections.abc import Iterator

from kvproof.spec.cells import block_cached, block_listed, live_required, page_needed, page_place
from kvproof.spec.judge.runs import listed_ordinals, page_id
from kvproof.spec.laws.confinement import page_extent, row_extent, row_place
from kvproof.spec.laws.zeroing import page_owed
from kvproof.spec.place import Place
from kvproof.spec.scope import Covered
from kvproof.spec.vocabulary import TOKEN_KINDS, Group
from kvproof.spec.world import LayerView, WorkerView, first_token_of


def own_blocks(worker: WorkerView, group: Group) -> Iterator[tuple[int, int]]:
    """The group's listed blocks that are not null, with their ordinals. Of ssm and ring groups live or not."""
    table = worker.worker.tables[group.name]
    null = next(pool.null for pool in worker.worker.pools if pool.name == group.pool)
    for index, block in enumerate(table.blocks):
        if block != null:
            yield table.first + index, block


def is_cached(covered: Covered, group: Group, ordinal: int) -> bool:
    """The block at this ordinal of a consumer group is cached: nothing may be written there."""
    assert covered.tokens is not None
    cached = covered.consumer.worker.tables[group.name].cached_tokens or 0
    if group.kind not in TOKEN_KINDS:
        return not live_required(cached, covered.tokens)
    assert group.block_tokens is not None
    return bool(block_cached(group.block_tokens, ordinal, cached))


def block_extents(worker: WorkerView, group: Group, block: int) -> Iterator[Place]:
    """Pages and rows of one block, in every layer of its pool."""
    for view in worker.layers_of_pool(group.pool):
        for page in range(view.page.pages_per_block):
            yield page_extent(view.page, block, page)
            if view.storage.name in worker.block_outer:
                yield row_extent(view.page, block, page)


def allowed(covered: Covered) -> Iterator[Place]:
    """L3: where this request may be written: its own blocks that are not cached."""
    for group in covered.consumer.worker.groups:
        for ordinal, block in own_blocks(covered.consumer, group):
            if not is_cached(covered, group, ordinal):
                yield from block_extents(covered.consumer, group, block)


def group_extents(covered: Covered, group: Group) -> Iterator[Place]:
    """L11: all bytes of a group's blocks."""
    for _, block in own_blocks(covered.consumer, group):
        yield from block_extents(covered.consumer, group, block)


def useful(covered: Covered, group: Group) -> Iterator[Place]:
    """L11: pages of the group's layers that hold a needed token (or the live state); in block-outer storages rows."""
    assert covered.tokens is not None
    for view in covered.consumer.layers_of(group.name):
        for ordinal in useful_ordinals(view, covered.tokens):
            page = page_id(view, ordinal)
            outer = view.storage.name in covered.consumer.block_outer
            yield row_place(view.page, page) if outer else page_place(view.page, page)


def useful_ordinals(view: LayerView, tokens: int) -> Iterator[int]:
    """Page ordinals that hold a needed token, or 0 for a live block that is required."""
    if not view.by_token:
        if live_required(view.block_table.cached_tokens, tokens) and block_listed(view.block_table, 0):
            yield 0
        return
    first = first_token_of(view, tokens)
    yield from (g for g in listed_ordinals(view) if page_needed(view.page, g, first, tokens))


def owed_pages(view: LayerView, tokens: int) -> Iterator[int]:
    """L9b: page ordinals of a consumer layer that must end zero."""
    if view.by_token:
        first = first_token_of(view, tokens)
        yield from (g for g in listed_ordinals(view) if page_owed(view.page, view.block_table, g, first, tokens))
