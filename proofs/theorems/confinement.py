# SPDX-License-Identifier: Apache-2.0
"""Confinement: what is written for a block stays in its pages and rows."""

from __future__ import annotations

from typing import NamedTuple

from kvproof.proofs import worlds
from kvproof.proofs.claim import Instance, Theorem
from kvproof.proofs.lemmas.products import both_orders, not_negative, order
from kvproof.proofs.source import Numbers, Source
from kvproof.proofs.theorems.separation import FRAME, pooled
from kvproof.reference import arithmetic
from kvproof.spec import wellformed
from kvproof.spec.laws import confinement
from kvproof.spec.logic import Bool, Int, all_of, negate
from kvproof.spec.plan import Copy


class Write(NamedTuple):
    """A copy, or a zero, of one page of an own block of the target; another block's page; and rows of both."""

    own: worlds.Side
    block: Int
    page: Int
    other: worlds.Side
    other_block: Int
    other_page: Int
    source_offset: Int
    index: Int
    case: str

    @property
    def id(self) -> Int:
        """The reference's page id of the own page."""
        return arithmetic.expand(self.block, self.own.view.pages_per_block, self.page)


class WritesStayInTheirOwnRow(Theorem[Write]):
    """What a copy or a zero writes lies in its own block's page and row, and in no page or row of another block."""

    id = "P17"
    law = "confinement"
    variants = ("page", "row")

    def world(self, source: Source, variant: str) -> Write:
        number = source.integer
        return Write(
            worlds.side(source, "target"),
            number("first.block"),
            number("first.page"),
            worlds.side(source, "rival"),
            number("second.block"),
            number("second.page"),
            number("source.offset"),
            number("index"),
            variant,
        )

    def hypotheses(self, w: Write) -> list[Bool]:
        view = w.own.view
        page = [
            *pooled(w.own, w.block, w.page),
            *pooled(w.other, w.other_block, w.other_page),
            wellformed.framed(view, w.other.view, True),
            negate(w.block == w.other_block),
            # A block-outer storage: all its views share stride and page count and lie in the first row.
            view.page_stride == w.other.view.page_stride,
            view.pages_per_block == w.other.view.pages_per_block,
            view.offset + view.page_bytes <= view.page_stride,
            w.other.view.offset + w.other.view.page_bytes <= view.page_stride,
            0 <= w.index,
        ]
        if w.case == "page":
            return [*page, w.index < view.page_bytes]
        return [*page, w.index < view.page_stride]

    def claim(self, w: Write) -> Bool:
        write, view = self.copy(w).target, w.own.view
        own_row = confinement.row_extent(view, w.block, w.page)
        other_row = confinement.row_extent(view, w.other_block, w.other_page)
        other_page = confinement.page_extent(w.other.view, w.other_block, w.other_page)
        in_row = all_of(
            confinement.byte_confined(write, w.index, own_row),
            negate(confinement.byte_confined(write, w.index, other_row)),
            negate(confinement.byte_confined(write, w.index, other_page)),
        )
        if w.case == "row":
            return in_row
        own_page = confinement.page_extent(view, w.block, w.page)
        return all_of(in_row, confinement.byte_confined(write, w.index, own_page))

    def lemmas(self, w: Write) -> list[Instance]:
        other = arithmetic.expand(w.other_block, w.own.view.pages_per_block, w.other_page)
        stride = w.own.view.page_stride
        return [
            *both_orders(w.block, w.other_block, w.own.view.pages_per_block),
            *both_orders(w.id, other, stride),
            order(w.own.view.pages_per_block, w.other.view.pages_per_block, w.other_block),
            order(
                other,
                arithmetic.expand(w.other_block, w.other.view.pages_per_block, w.other_page),
                stride,
            ),
            order(
                stride,
                w.other.view.page_stride,
                arithmetic.expand(w.other_block, w.other.view.pages_per_block, w.other_page),
            ),
            not_negative(w.other_block, w.other.view.pages_per_block),
        ]

    def copy(self, w: Write) -> Copy:
        """What the reference writes: the layer's own page, or the whole row that it is part of."""
        region = w.own.region
        if w.case == "row":
            region = worlds.row_region(w.own.view)
        return arithmetic.copy_of(region, w.source_offset, region, w.id)

    def example(self, variant: str) -> Numbers:
        return FRAME.but(
            rival__pages_per_block=2, rival__stride=100, rival__offset=60, rival__page_bytes=40, target__offset=0
        )
