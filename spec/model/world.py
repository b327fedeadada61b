# SPDX-License-Identifier: Apache-2.0
"""A case with a request on terms: which cells there are, which are required, where they lie."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kvproof.spec.cells import (
    BlockTable,
    Cell,
    PageView,
    PartView,
    holds,
    live_required,
    locate,
    opaque_required,
    page_needed,
    page_place,
    state_required,
)
from kvproof.spec.laws.confinement import page_extent, row_extent, row_place
from kvproof.spec.logic import Bool, Int, all_of
from kvproof.spec.model.terms import Codes, coded, coded_page, term_table
from kvproof.spec.place import Place
from kvproof.spec.plan import Copy, Plan
from kvproof.spec.scope import Covered, LayerPair
from kvproof.spec.vocabulary import TOKEN_KINDS, Group
from kvproof.spec.world import LayerView, first_token_of


class TermSide(msgspec.Struct, frozen=True):
    """A layer of one worker, for symbolic cells."""

    page: PageView
    parts: tuple[PartView, ...]
    table: BlockTable


class TermLayer(msgspec.Struct, frozen=True):
    """A layer of the consumer and its twin."""

    key: str
    view: LayerView
    source: TermSide
    target: TermSide


class TermWorld:
    """The case for the solver."""

    def __init__(self, covered: Covered) -> None:
        assert covered.tokens is not None, "a case without a request has no cells"
        self.tokens = covered.tokens
        self.consumer = covered.consumer
        self.sizes: dict[int, int] = {}
        self.codes: Codes = {}
        for worker in (covered.producer, covered.consumer):
            for storage in worker.worker.storages:
                self.codes[f"{worker.name}/{storage.name}"] = len(self.codes)
                self.sizes[len(self.sizes)] = storage.bytes
        self.names = {code: name for name, code in self.codes.items()}
        self.layers = [self._layer(pair) for pair in covered.pairs]

    def _layer(self, pair: LayerPair) -> TermLayer:
        return TermLayer(pair.target.key, pair.target, self._side(pair.source), self._side(pair.target))

    def _side(self, view: LayerView) -> TermSide:
        return TermSide(coded_page(view.page, self.codes), view.parts, term_table(view))

    def copies(self, plan: Plan) -> list[Copy]:
        """The copies of a plan, storages as numbers."""
        return [Copy(coded(copy.source, self.codes), coded(copy.target, self.codes)) for copy in plan.copies]

    def zeroes(self, plan: Plan) -> list[Place]:
        """The zeroes of a plan, storages as numbers."""
        return [coded(zero, self.codes) for zero in plan.zeroes]

    def required(self, layer: TermLayer, part: int, cell: Cell) -> Bool:
        """The consumer holds the cell and needs it."""
        held = holds(layer.target.page, layer.target.parts[part], layer.target.table, cell)
        return all_of(held, self._needs(layer, cell.state))

    def _needs(self, layer: TermLayer, state: Int) -> Bool:
        if not layer.view.by_token:
            return all_of(state == 0, live_required(layer.target.table.cached_tokens, self.tokens))
        first = first_token_of(layer.view, self.tokens)
        rule = opaque_required if layer.view.opaque else state_required
        return rule(layer.target.page, state, first, self.tokens)

    def cached(self, layer: TermLayer, part: int, cell: Cell) -> Bool:
        """The consumer holds the cell already."""
        held = holds(layer.target.page, layer.target.parts[part], layer.target.table, cell)
        cached = layer.target.table.cached_tokens
        if not layer.view.by_token:
            return all_of(held, cell.state == 0, self.tokens <= cached)
        return all_of(held, (cell.state + 1) * layer.target.page.tokens_per_state <= cached)

    def sourced(self, layer: TermLayer, part: int, cell: Cell) -> Bool:
        """The producer holds the cell."""
        return holds(layer.source.page, layer.source.parts[part], layer.source.table, cell)

    def source(self, layer: TermLayer, part: int, cell: Cell) -> Place:
        """Where the producer holds it."""
        return locate(layer.source.page, layer.source.parts[part], layer.source.table, cell)

    def target(self, layer: TermLayer, part: int, cell: Cell) -> Place:
        """Where the consumer holds it."""
        return locate(layer.target.page, layer.target.parts[part], layer.target.table, cell)

    def own(self, group: Group, cached_too: bool) -> Iterator[Place]:
        """The pages and rows of a group's listed blocks."""
        table = self.consumer.worker.tables[group.name]
        nulls = {pool.null for pool in self.consumer.worker.pools if pool.name == group.pool}
        for ordinal, block in enumerate(table.blocks, table.first):
            if block in nulls or (not cached_too and self._block_is_cached(group, ordinal)):
                continue
            for view in self.consumer.layers_of_pool(group.pool):
                page = coded_page(view.page, self.codes)
                for number in range(page.pages_per_block):
                    yield page_extent(page, block, number)
                    if view.storage.name in self.consumer.block_outer:
                        yield row_extent(page, block, number)

    def _block_is_cached(self, group: Group, ordinal: int) -> bool:
        cached = self.consumer.worker.tables[group.name].cached_tokens or 0
        if group.kind not in TOKEN_KINDS:
            return self.tokens <= cached
        return (ordinal + 1) * (group.block_tokens or 0) <= cached

    def allowed(self) -> list[Place]:
        """Where the request may be written."""
        return [place for group in self.consumer.worker.groups for place in self.own(group, cached_too=False)]

    def useful(self, group: Group) -> Iterator[Place]:
        """What is worth moving for a group: pages, or rows, that hold a needed token or the live state."""
        for view in self.consumer.layers_of(group.name):
            page, table = coded_page(view.page, self.codes), view.block_table
            for ordinal in range(table.first, table.first + table.count):
                block = table.block(ordinal)
                for number in range(page.pages_per_block):
                    whole = ordinal * page.pages_per_block + number
                    if block != table.null and self._page_is_needed(view, whole):
                        page_id = block * page.pages_per_block + number
                        outer = view.storage.name in self.consumer.block_outer
                        yield row_place(page, page_id) if outer else page_place(page, page_id)

    def _page_is_needed(self, view: LayerView, ordinal: int) -> bool:
        if not view.by_token:
            return bool(live_required(view.block_table.cached_tokens, self.tokens))
        return bool(page_needed(view.page, ordinal, first_token_of(view, self.tokens), self.tokens))
