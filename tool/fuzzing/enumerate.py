# SPDX-License-Identifier: Apache-2.0
"""The laws by brute force: every cell, byte, copy and page, one by one, by the kernels alone.

What the judge finds with sweeps over intervals must be exactly this. For small worlds only.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import combinations

import msgspec

from kvproof.spec.cells import (
    Cell,
    PartView,
    block_listed,
    holds,
    live_required,
    locate,
    opaque_required,
    page_needed,
    page_of,
    page_place,
    state_required,
)
from kvproof.spec.laws.alignment import aligned, untouched
from kvproof.spec.laws.bounds import span_in_storage
from kvproof.spec.laws.confinement import byte_confined, page_extent, row_extent, row_place
from kvproof.spec.laws.coverage import byte_covered
from kvproof.spec.laws.economy import byte_useful
from kvproof.spec.laws.single_writer import not_also_zeroed, same_value
from kvproof.spec.laws.zeroing import byte_zeroed, page_owed, zero_spares
from kvproof.spec.place import Place
from kvproof.spec.plan import Copy, Plan
from kvproof.spec.scope import Covered, LayerPair
from kvproof.spec.vocabulary import TOKEN_KINDS, Group, Law
from kvproof.spec.world import LayerView, first_token_of

Byte = tuple[str, int]
"""Storage id and offset."""


class Enumerated(msgspec.Struct, frozen=True):
    """What enumeration says of a plan: as the judge's answer, byte by byte."""

    laws: frozenset[Law]
    corrupt: frozenset[Byte]
    contested: frozenset[Byte]
    ratios: dict[str, tuple[int, int]]


class KnownCell(msgspec.Struct, frozen=True):
    """A cell that the consumer holds and either needs or has cached; ``source`` None where the producer lacks it."""

    required: bool
    target: Place
    source: Place | None


class World:
    """A covered case with a request, and a plan, enumerated."""

    def __init__(self, covered: Covered, plan: Plan) -> None:
        assert covered.tokens is not None
        self.covered = covered
        self.tokens = covered.tokens
        self.plan = plan

    @cached_property
    def cells(self) -> list[KnownCell]:
        return [cell for pair in self.covered.pairs for cell in self._cells_of(pair)]

    def _cells_of(self, pair: LayerPair) -> Iterator[KnownCell]:
        for index, part in enumerate(pair.target.parts):
            for state in self._states(pair.target):
                for unit in range(part.first + part.count + 1):
                    cell = Cell(unit, state)
                    known = self._known(pair, index, part, cell)
                    if known is not None:
                        yield known

    def _known(self, pair: LayerPair, index: int, part: PartView, cell: Cell) -> KnownCell | None:
        view, twin = pair.target, pair.source
        if not holds(view.page, part, view.block_table, cell):
            return None
        required = self._required(view, cell.state)
        if not required and not self._cached(view, cell.state):
            return None
        target = locate(view.page, part, view.block_table, cell)
        held = holds(twin.page, twin.parts[index], twin.block_table, cell)
        source = locate(twin.page, twin.parts[index], twin.block_table, cell) if held else None
        return KnownCell(required, target, source)

    def _states(self, view: LayerView) -> range:
        if not view.by_token:
            return range(1)
        return range(
            (view.block_table.first + view.block_table.count) * view.page.pages_per_block * view.page.states_per_page
        )

    def _required(self, view: LayerView, state: int) -> bool:
        if not view.by_token:
            return bool(live_required(view.block_table.cached_tokens, self.tokens))
        first = first_token_of(view, self.tokens)
        rule = opaque_required if view.opaque else state_required
        return bool(rule(view.page, state, first, self.tokens))

    def _cached(self, view: LayerView, state: int) -> bool:
        if not view.by_token:
            return not live_required(view.block_table.cached_tokens, self.tokens)
        return bool((state + 1) * view.page.tokens_per_state <= view.block_table.cached_tokens)

    def required_bytes(self) -> Iterator[tuple[KnownCell, int]]:
        """Every required cell, and the index of each of its bytes."""
        for cell in self.cells:
            if cell.required:
                yield from ((cell, index) for index in range(cell.target.bytes))

    def extents(self, group: Group, cached_too: bool) -> Iterator[Place]:
        """Pages and rows of a consumer group's listed blocks."""
        worker = self.covered.consumer
        table = worker.worker.tables[group.name]
        nulls = [pool.null for pool in worker.worker.pools if pool.name == group.pool]
        for index, block in enumerate(table.blocks):
            if block in nulls or (not cached_too and self._block_cached(group, table.first + index)):
                continue
            for view in worker.layers_of_pool(group.pool):
                for page in range(view.page.pages_per_block):
                    yield page_extent(view.page, block, page)
                    if view.storage.name in worker.block_outer:
                        yield row_extent(view.page, block, page)

    def _block_cached(self, group: Group, ordinal: int) -> bool:
        cached = self.covered.consumer.worker.tables[group.name].cached_tokens or 0
        if group.kind not in TOKEN_KINDS:
            return cached >= self.tokens
        last_token = (ordinal + 1) * (group.block_tokens or 1) - 1
        return last_token < cached

    @cached_property
    def allowed(self) -> list[Place]:
        groups = self.covered.consumer.worker.groups
        return [extent for group in groups for extent in self.extents(group, cached_too=False)]

    def confined(self, write: Place) -> bool:
        """L3 of one write, byte by byte."""
        return all(any(byte_confined(write, i, extent) for extent in self.allowed) for i in range(write.bytes))

    def ordinals(self, view: LayerView) -> range:
        """Page ordinals up to the end of the table."""
        end = view.block_table.first + view.block_table.count
        return range(end * view.page.pages_per_block) if view.by_token else range(end)

    def useful(self, group: Group) -> Iterator[Place]:
        """L11: the extents that hold a needed token, or the live block's."""
        worker = self.covered.consumer
        for view in worker.layers_of(group.name):
            for ordinal in self.ordinals(view):
                listed = block_listed(view.block_table, ordinal // view.page.pages_per_block)
                first = first_token_of(view, self.tokens) if view.by_token else 0
                if view.by_token:
                    needed = page_needed(view.page, ordinal, first, self.tokens)
                else:
                    needed = live_required(view.block_table.cached_tokens, self.tokens)
                if listed and needed:
                    page = page_of(view.page, view.block_table, ordinal)
                    outer = view.storage.name in worker.block_outer
                    yield row_place(view.page, page) if outer else page_place(view.page, page)


def enumerate_plan(covered: Covered, plan: Plan) -> Enumerated:
    """Which laws the plan breaks, which bytes end wrong, and the ratios."""
    world = World(covered, plan)
    broken: set[Law] = set()
    corrupt: set[Byte] = set()
    ratios = dict(_ratios(world))
    for law, byte in _cell_breaches(world):
        broken.add(law)
        corrupt.update([byte] if byte is not None else [])
    contested = set(_contested(world))
    if contested:
        broken.add("single-writer")
    if not all(world.confined(write) for write in (*(copy.target for copy in plan.copies), *plan.zeroes)):
        broken.add("confinement")
    if not all(_in_bounds(covered, span) for c in plan.copies for span in (c.source, c.target)):
        broken.add("bounds")
    if not all(_in_bounds(covered, span) for span in plan.zeroes):
        broken.add("bounds")
    if not all(world.confined(zero) for zero in plan.zeroes) or any(_left(world)):
        broken.add("zeroing")
    if any(moved > useful for moved, useful in ratios.values()):
        broken.add("economy")
    return Enumerated(frozenset(broken), frozenset(corrupt), frozenset(contested), ratios)


def _cell_breaches(world: World) -> Iterator[tuple[Law, Byte | None]]:
    """L1, L2 and the first half of L9a, each with the required byte that ends wrong (None for a cached cell's)."""
    for cell, index in world.required_bytes():
        if not any(byte_covered(copy, cell.target, index) for copy in world.plan.copies):
            yield "coverage", (cell.target.storage, cell.target.offset + index)
    for cell in world.cells:
        for copy in world.plan.copies:
            if not (
                aligned(copy, cell.source, cell.target) if cell.source is not None else untouched(copy, cell.target)
            ):
                yield from (("alignment", byte) for byte in _struck(cell, copy))
        for zero in world.plan.zeroes:
            if not zero_spares(zero, cell.target):
                yield from (("zeroing", byte) for byte in _struck(cell, Copy(zero, zero)))


def _struck(cell: KnownCell, copy: Copy) -> Iterator[Byte | None]:
    """The bytes of the cell that the copy writes; None stands for those of a cell that is not required."""
    if not cell.required:
        yield None
        return
    for index in range(cell.target.bytes):
        if byte_covered(copy, cell.target, index):
            yield cell.target.storage, cell.target.offset + index


def _contested(world: World) -> Iterator[Byte]:
    """L5: required bytes that get two values. Copies that do not touch a byte satisfy the kernels by themselves."""
    for cell, index in world.required_bytes():
        storage, byte = cell.target.storage, cell.target.offset + index
        copies = [copy for copy in world.plan.copies if byte_covered(copy, cell.target, index)]
        agreed = all(same_value(first, second, storage, byte) for first, second in combinations(copies, 2))
        if not agreed or not all(not_also_zeroed(c, zero, storage, byte) for c in copies for zero in world.plan.zeroes):
            yield storage, byte


def _in_bounds(covered: Covered, span: Place) -> bool:
    for worker in (covered.producer, covered.consumer):
        for storage in worker.worker.storages:
            if span.storage == f"{worker.name}/{storage.name}":
                return bool(span_in_storage(span, storage.bytes))
    return False


def _left(world: World) -> Iterator[bool]:
    """L9b: for each owed page's byte that no zero writes, True."""
    for view in world.covered.consumer.layers:
        if not view.by_token:
            continue
        first = first_token_of(view, world.tokens)
        for ordinal in world.ordinals(view):
            if page_owed(view.page, view.block_table, ordinal, first, world.tokens):
                for index in range(view.page.page_bytes):
                    zeroed = (
                        byte_zeroed(zero, view.page, view.block_table, ordinal, index) for zero in world.plan.zeroes
                    )
                    if not any(zeroed):
                        yield True


def _ratios(world: World) -> Iterator[tuple[str, tuple[int, int]]]:
    """L11: bytes moved into each group's blocks, and the distinct useful ones."""
    for group in world.covered.consumer.worker.groups:
        own, useful = list(world.extents(group, cached_too=True)), list(world.useful(group))
        moved, seen = 0, set()
        for copy in world.plan.copies:
            for index in range(copy.target.bytes):
                moved += any(byte_confined(copy.target, index, extent) for extent in own)
                if any(byte_useful(copy, index, extent) for extent in useful):
                    seen.add((copy.target.storage, copy.target.offset + index))
        if moved:
            yield f"{world.covered.consumer.name}.{group.name}", (moved, len(seen))
