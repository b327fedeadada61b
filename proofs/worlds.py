# SPDX-License-Identifier: Apache-2.0
"""Worlds of integer-like values that claims range over: one layer on both sides of a transfer, or two layers of one.

Paired layers share the names of what W16 makes equal: page bytes, states, parts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import msgspec

from kvproof.proofs.source import Function, Source
from kvproof.reference import arithmetic
from kvproof.spec import cells, tables
from kvproof.spec.cells import BlockTable, Cell, PageView, PartView
from kvproof.spec.logic import Int, floor_div, mod
from kvproof.spec.place import Place
from kvproof.spec.plan import Copy
from kvproof.spec.tables import Region

SideName = Literal["source", "target", "rival"]


@dataclass(frozen=True)
class Side:
    """A layer of one worker, its block table, the size of its pool and of its storage."""

    view: PageView
    part: PartView
    table: BlockTable
    blocks: Int
    storage_bytes: Int
    base: Int
    memory: Int

    @property
    def block_tokens(self) -> Int:
        """Tokens in a block."""
        return self.view.page_tokens * self.view.pages_per_block

    @property
    def region(self) -> Region:
        """The layer's own pages as a region."""
        return own_region(self.view, self.memory)

    def page(self, ordinal: Int) -> Int:
        """The reference's page id at a page ordinal."""
        first = self.table.first
        return arithmetic.page_at(
            ordinal, self.view.pages_per_block, first, lambda index: self.table.block(index + first)
        )

    def block(self, ordinal: Int) -> Int:
        """The block that a page ordinal lies in."""
        return self.table.block(self.block_ordinal(ordinal))

    def block_ordinal(self, ordinal: Int) -> Int:
        """Block ordinal of a page ordinal."""
        return floor_div(ordinal, self.view.pages_per_block)

    def number(self, ordinal: Int) -> Int:
        """Which page of its block the page of this ordinal is."""
        return mod(ordinal, self.view.pages_per_block)

    def zero(self, ordinal: Int) -> Place:
        """The reference's zero for the page at an ordinal."""
        return tables.descriptor(self.region, self.page(ordinal))

    def place(self, cell: Cell) -> Place:
        """Where the judge finds a cell."""
        return cells.locate(self.view, self.part, self.table, cell)


@dataclass(frozen=True)
class Transfer:
    """One layer moved for one request: a cell of it, two page ordinals, a byte index, and another layer (``rival``)."""

    source: Side
    target: Side
    rival: Side
    tokens: Int
    window: Int | None
    retained: Int
    cell: Cell
    ordinal: Int
    other: Int
    index: Int

    @property
    def first_token(self) -> Int:
        """First needed token, as the reference computes it."""
        return arithmetic.first_token(self.target.table.cached_tokens, self.tokens, self.window, self.retained)

    @property
    def first(self) -> Int:
        """First selected page ordinal."""
        return arithmetic.first_page(self.first_token, self.target.view.page_tokens)

    @property
    def end(self) -> Int:
        """Page ordinal after the last selected one."""
        return arithmetic.end_page(self.tokens, self.target.view.page_tokens)

    @property
    def end_of_blocks(self) -> Int:
        """Page ordinal after the block of the last token."""
        view = self.target.view
        return arithmetic.end_of_blocks(self.tokens, self.target.block_tokens, view.pages_per_block)

    def copy(self, ordinal: Int) -> Copy:
        """What the reference copies for a page ordinal."""
        source, target = self.source, self.target
        return arithmetic.copy_of(source.region, source.page(ordinal), target.region, target.page(ordinal))

    def rival_copy(self, ordinal: Int) -> Copy:
        """What the reference copies for a page ordinal of the rival layer, from wherever its twin lies."""
        twin = replace_storage(self.rival.region, self.source.view.storage)
        return arithmetic.copy_of(twin, ordinal, self.rival.region, self.rival.page(ordinal))


def own_region(view: PageView, memory: Int = 0) -> Region:
    """A view as a region of its own."""
    return Region(view.storage, view.offset, view.page_bytes, view.page_stride, view.pages, memory, "attention")


def row_region(view: PageView, memory: Int = 0) -> Region:
    """The rows of a block-outer storage that the view lies in, as one region."""
    return Region(view.storage, 0, view.page_stride, view.page_stride, view.pages, memory, "attention")


def replace_storage(region: Region, storage: Int) -> Region:
    """The same region, in another storage."""
    return Region(storage, region.offset, region.bytes, region.stride, region.pages, region.memory, region.section)


def transfer(source: Source, variant: str = "") -> Transfer:
    """The world of a transfer. The variant's words choose the order of units, a window, a null block."""
    words = variant.split(", ")
    number = source.integer
    order = "state-major" if "state-major" in words else "unit-major"
    windowed = "sliding" in words
    target = side(source, "target", order)
    if "null" in words:
        target = replace(target, table=with_null(target.table, number("target.null")))
    return Transfer(
        source=side(source, "source", order),
        target=target,
        rival=side(source, "rival", order),
        tokens=number("tokens"),
        window=number("window") if windowed else None,
        retained=number("retained") if windowed else 0,
        cell=Cell(number("cell.unit"), number("cell.state")),
        ordinal=number("ordinal"),
        other=number("other"),
        index=number("index"),
    )


def live(w: Transfer) -> Transfer:
    """The transfer of a ssm or ring block: one page, one state, no more."""

    def alone(side: Side) -> Side:
        view = msgspec.structs.replace(side.view, pages_per_block=1, states_per_page=1, tokens_per_state=1)
        return replace(side, view=view)

    return replace(w, source=alone(w.source), target=alone(w.target), cell=Cell(w.cell.unit, 0))


def side(source: Source, name: SideName, order: str = "unit-major") -> Side:
    """One side. The rival has page bytes, states and parts of its own."""
    number = source.integer
    shared = "rival." if name == "rival" else ""
    blocks, pages_per_block = number(f"{name}.blocks"), number(f"{name}.pages_per_block")
    return Side(
        view=PageView(
            storage=number(f"{name}.storage"),
            offset=number(f"{name}.offset"),
            page_bytes=number(f"{shared}page_bytes"),
            page_stride=number(f"{name}.stride"),
            pages=arithmetic.page_count(blocks, pages_per_block),
            pages_per_block=pages_per_block,
            states_per_page=number(f"{shared}states_per_page"),
            tokens_per_state=number(f"{shared}tokens_per_state"),
        ),
        part=part(source, f"{shared}part", order),
        table=table(source, name),
        blocks=blocks,
        storage_bytes=number(f"{name}.storage_bytes"),
        base=number(f"{name}.base"),
        memory=number(f"{name}.memory"),
    )


def part(source: Source, name: str, order: str = "unit-major") -> PartView:
    """A part of a page."""
    number = source.integer
    start, first, count, unit_bytes = (number(f"{name}.{field}") for field in ("start", "first", "count", "unit_bytes"))
    return PartView(start, first, count, unit_bytes, order)


def table(source: Source, name: str) -> BlockTable:
    """A block table. Producers have no cached tokens."""
    number = source.integer
    block: Function = source.function(f"{name}.block")
    cached = 0 if name == "source" else number(f"{name}.cached_tokens")
    return BlockTable(block, number(f"{name}.first"), number(f"{name}.count"), cached)


def with_null(table: BlockTable, null: Int) -> BlockTable:
    """The table, in a pool that has a null block."""
    return BlockTable(table.block, table.first, table.count, table.cached_tokens, null)
