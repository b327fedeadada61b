# SPDX-License-Identifier: Apache-2.0
"""Spans stay in their storage, and their addresses in 64 bits."""

from __future__ import annotations

from kvproof.proofs import assumed, examples, worlds
from kvproof.proofs.claim import Instance, Theorem
from kvproof.proofs.lemmas.products import not_negative, order
from kvproof.proofs.source import Numbers, Source
from kvproof.proofs.theorems.pages import PageIdsStayInThePool, PooledPage
from kvproof.proofs.worlds import Side, Transfer
from kvproof.reference import arithmetic
from kvproof.spec import wellformed
from kvproof.spec.laws import bounds
from kvproof.spec.logic import Bool, Int, all_of
from kvproof.spec.place import Place
from kvproof.spec.plan import Copy


class SpansStayInTheirStorage(Theorem[Transfer]):
    """Source and target of each copy, and each zero, lie inside their storage, at addresses below 2^64."""

    id = "P18"
    law = "bounds"

    def world(self, source: Source, variant: str) -> Transfer:
        return worlds.transfer(source, variant)

    def hypotheses(self, w: Transfer) -> list[Bool]:
        return [*assumed.paired(w), *self.side(w.source, w.ordinal), *self.side(w.target, w.ordinal)]

    def side(self, side: Side, ordinal: Int) -> list[Bool]:
        """W5, and W6 at the block of the page."""
        return [
            assumed.in_pool(side, ordinal),
            wellformed.view_in_storage(side.view, side.storage_bytes),
            wellformed.storage_addressable(side.base, side.storage_bytes),
        ]

    def claim(self, w: Transfer) -> Bool:
        copy = w.copy(w.ordinal)
        return all_of(
            inside(w.source, copy.source), inside(w.target, copy.target), inside(w.target, w.target.zero(w.ordinal))
        )

    def lemmas(self, w: Transfer) -> list[Instance]:
        return [*self.near(w.source, w.ordinal), *self.near(w.target, w.ordinal)]

    def near(self, side: Side, ordinal: Int) -> list[Instance]:
        """The page is one of the view's, and lies before the end of the last."""
        view = side.view
        return [
            PageIdsStayInThePool.at(
                PooledPage(side.blocks, view.pages_per_block, side.block(ordinal), side.number(ordinal))
            ),
            order(side.page(ordinal), view.pages, view.page_stride),
            not_negative(side.page(ordinal), view.page_stride),
        ]

    def example(self, variant: str) -> Numbers:
        return examples.PADDED_TAIL


class RowsStayInTheirStorage(Theorem[Side]):
    """A row that the reference registers lies inside its storage, for each of its pages."""

    id = "P37"
    law = "bounds"

    def world(self, source: Source, variant: str) -> Side:
        return worlds.side(source, "target")

    def hypotheses(self, w: Side) -> list[Bool]:
        return [
            wellformed.sizes_positive(w.view),
            arithmetic.row_fits(worlds.row_region(w.view), w.storage_bytes),
            assumed.in_pool(w, w.table.first),
        ]

    def claim(self, w: Side) -> Bool:
        return bounds.span_in_storage(self.copy(w).target, w.storage_bytes)

    def lemmas(self, w: Side) -> list[Instance]:
        view, page = w.view, w.page(w.table.first)
        return [
            PageIdsStayInThePool.at(
                PooledPage(w.blocks, view.pages_per_block, w.block(w.table.first), w.number(w.table.first))
            ),
            order(page, view.pages, view.page_stride),
            not_negative(page, view.page_stride),
        ]

    def copy(self, w: Side) -> Copy:
        """The copy of the row of the table's first page."""
        row = worlds.row_region(w.view)
        return arithmetic.copy_of(row, 0, row, w.page(w.table.first))

    def example(self, variant: str) -> Numbers:
        return examples.PADDED_TAIL


def inside(side: Side, span: Place) -> Bool:
    """L4 for one span."""
    return all_of(
        bounds.span_in_storage(span, side.storage_bytes), bounds.address_fits(side.base, span.offset, span.bytes)
    )
