# SPDX-License-Identifier: Apache-2.0
"""A case resolved: every layer with its pages, parts and table, as the kernels want them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

import msgspec

from kvproof.spec.cells import BlockTable, PageView, PartView, first_needed_token
from kvproof.spec.vocabulary import TOKEN_KINDS, Case, Group, Layer, Pool, Storage, Table, Worker

NOWHERE = -1
"""What a table answers outside its list: no block has this id."""


class LayerView(msgspec.Struct, frozen=True):
    """One layer of one worker. ``table`` is None where the case has no request.

    ``parts`` of an opaque layer is the whole page as one unit of one state.
    """

    worker: str
    layer: Layer
    group: Group
    pool: Pool
    storage: Storage
    page: PageView
    parts: tuple[PartView, ...]
    table: BlockTable | None

    @property
    def key(self) -> str:
        """The name under which the engines know the layer."""
        return self.layer.match_key

    @property
    def opaque(self) -> bool:
        """The page moves only whole."""
        return not self.layer.parts

    @property
    def by_token(self) -> bool:
        """Attention and sliding: blocks hold tokens by position."""
        return self.group.kind in TOKEN_KINDS

    @property
    def block_table(self) -> BlockTable:
        """The table, where there is a request."""
        assert self.table is not None, "a case without a request has no tables"
        return self.table


class WorkerView(msgspec.Struct, frozen=True):
    """One worker: its layers in the order of the case, its storages by id, and the names of the block-outer ones."""

    worker: Worker
    layers: tuple[LayerView, ...]
    storages: dict[str, Storage]
    block_outer: frozenset[str]

    @property
    def name(self) -> str:
        return self.worker.name

    def layers_of(self, group: str) -> Iterator[LayerView]:
        """The layers of one group."""
        return (view for view in self.layers if view.group.name == group)

    def layers_of_pool(self, pool: str) -> Iterator[LayerView]:
        """The layers of all groups of a pool."""
        return (view for view in self.layers if view.pool.name == pool)


def storage_id(worker: str, storage: str) -> str:
    """The name of a storage in plans and tables."""
    return f"{worker}/{storage}"


def storage_bytes(case: Case) -> dict[str, int]:
    """Bytes of every storage of the case, by storage id."""
    return {storage_id(w.name, s.name): s.bytes for w in case.worker for s in w.storages}


def resolve(case: Case, worker: Worker) -> WorkerView:
    """Resolve one worker of a case whose names and references are in order."""
    groups = {group.name: group for group in worker.groups}
    pools = {pool.name: pool for pool in worker.pools}
    storages = {storage.name: storage for storage in worker.storages}
    tables = {
        name: block_table(table, groups[name], pools[groups[name].pool])
        for name, table in worker.tables.items()
        if case.request is not None
    }
    layers = []
    for layer in worker.layers:
        group = groups[layer.group]
        pool, storage = pools[group.pool], storages[layer.storage]
        page = page_view(worker.name, layer, group, pool)
        table = tables.get(group.name)
        layers.append(LayerView(worker.name, layer, group, pool, storage, page, part_views(layer, page), table))
    outer = frozenset(name for name in storages if is_block_outer([v for v in layers if v.storage.name == name]))
    by_id = {storage_id(worker.name, name): storage for name, storage in storages.items()}
    return WorkerView(worker, tuple(layers), by_id, outer)


def page_view(worker: str, layer: Layer, group: Group, pool: Pool) -> PageView:
    """A layer's pages. An opaque page counts as one state of all its tokens, an ssm or ring page as one of one."""
    by_token = group.kind in TOKEN_KINDS
    per_block = group.pages_per_block if by_token else 1
    page_tokens = (group.block_tokens or 1) // per_block if by_token else 1
    state_tokens = layer.tokens_per_state if by_token and layer.parts else page_tokens
    return PageView(
        storage=storage_id(worker, layer.storage),
        offset=layer.offset,
        page_bytes=layer.page_bytes,
        page_stride=layer.page_stride,
        pages=pool.blocks * per_block,
        pages_per_block=per_block,
        states_per_page=page_tokens // state_tokens,
        tokens_per_state=state_tokens,
    )


def part_views(layer: Layer, page: PageView) -> tuple[PartView, ...]:
    """The parts end to end from the page's start; an opaque page is one."""
    if not layer.parts:
        return (PartView(0, 0, 1, layer.page_bytes, "unit-major"),)
    sizes = [part.count * page.states_per_page * part.unit_bytes for part in layer.parts]
    starts = accumulate(sizes, initial=0)
    return tuple(
        PartView(start, part.first, part.count, part.unit_bytes, part.order)
        for start, part in zip(starts, layer.parts, strict=False)
    )


def block_table(table: Table, group: Group, pool: Pool) -> BlockTable:
    """A table as the kernels want it: for ssm and ring kinds the live block alone, at ordinal 0."""
    blocks, first = table.blocks, table.first
    if group.kind not in TOKEN_KINDS:
        live = table.live or 0
        blocks, first = table.blocks[live : live + 1], 0

    def block(ordinal: int) -> int:
        index = ordinal - first
        return blocks[index] if 0 <= index < len(blocks) else NOWHERE

    return BlockTable(block, first, len(blocks), table.cached_tokens or 0, pool.null)


def is_block_outer(views: list[LayerView]) -> bool:
    """All views of the storage share pool, stride and page count, lie in the first stride, and the rows fit."""
    if not views:
        return False
    stride, pages = views[0].page.page_stride, views[0].page.pages
    alike = all(
        (view.pool.name, view.page.page_stride, view.page.pages) == (views[0].pool.name, stride, pages)
        and view.page.offset + view.page.page_bytes <= stride
        for view in views
    )
    return alike and stride * pages <= views[0].storage.bytes


def first_token_of(view: LayerView, tokens: int) -> int:
    """The first needed token of a consumer layer's group."""
    cached = view.block_table.cached_tokens
    return int(first_needed_token(cached, tokens, view.group.window_tokens, view.group.retained_tokens))
