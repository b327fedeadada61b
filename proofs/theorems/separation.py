# SPDX-License-Identifier: Apache-2.0
"""Separation: which pages never share a byte, so that what is written for one cannot harm another."""

from __future__ import annotations

from typing import NamedTuple

from kvproof.proofs import worlds
from kvproof.proofs.claim import Instance, Theorem
from kvproof.proofs.lemmas.products import both_orders, not_negative, order
from kvproof.proofs.source import Numbers, Source
from kvproof.proofs.theorems.pages import PageIdsStayInThePool, PooledPage
from kvproof.reference import arithmetic
from kvproof.spec import cells, wellformed
from kvproof.spec import place as places
from kvproof.spec.cells import PageView
from kvproof.spec.laws import confinement
from kvproof.spec.logic import Bool, Int, all_of, floor_div, implies, negate


class OnePage(NamedTuple):
    """A page of a view."""

    view: PageView
    page: Int


class PageLiesInItsView(Theorem[OnePage]):
    """Every page of a view lies between the view's first byte and its last."""

    id = "P31"
    law = "bounds"

    def world(self, source: Source, variant: str) -> OnePage:
        return OnePage(worlds.side(source, "target").view, source.integer("ordinal"))

    def hypotheses(self, w: OnePage) -> list[Bool]:
        return [wellformed.sizes_positive(w.view), 0 <= w.page, w.page < w.view.pages]

    def claim(self, w: OnePage) -> Bool:
        page = cells.page_place(w.view, w.page)
        return all_of(places.contains(wellformed.view_range(w.view), page), w.view.offset <= page.offset)

    def lemmas(self, w: OnePage) -> list[Instance]:
        return [order(w.page, w.view.pages, w.view.page_stride), not_negative(w.page, w.view.page_stride)]

    def example(self, variant: str) -> Numbers:
        return FRAME


class TwoPages(NamedTuple):
    """Pages of two views: page ``first_page`` of block ``first_block``, and likewise."""

    first: worlds.Side
    first_block: Int
    first_page: Int
    second: worlds.Side
    second_block: Int
    second_page: Int
    first_pool: Int
    second_pool: Int

    @property
    def first_id(self) -> Int:
        """Page id of the first."""
        return arithmetic.expand(self.first_block, self.first.view.pages_per_block, self.first_page)

    @property
    def second_id(self) -> Int:
        """Page id of the second."""
        return arithmetic.expand(self.second_block, self.second.view.pages_per_block, self.second_page)


class DistinctBlocksAreDisjointAcrossViews(Theorem[TwoPages]):
    """Pages of two different blocks share no byte, whichever layers and groups they belong to, of one pool or two."""

    id = "P16"
    law = "confinement"

    def world(self, source: Source, variant: str) -> TwoPages:
        number = source.integer
        return TwoPages(
            worlds.side(source, "target"),
            number("first.block"),
            number("first.page"),
            worlds.side(source, "rival"),
            number("second.block"),
            number("second.page"),
            number("first.pool"),
            number("second.pool"),
        )

    def hypotheses(self, w: TwoPages) -> list[Bool]:
        same_pool = w.first_pool == w.second_pool
        return [
            *pooled(w.first, w.first_block, w.first_page),
            *pooled(w.second, w.second_block, w.second_page),
            wellformed.framed(w.first.view, w.second.view, same_pool),
            negate(all_of(same_pool, w.first_block == w.second_block)),
        ]

    def claim(self, w: TwoPages) -> Bool:
        first = confinement.page_extent(w.first.view, w.first_block, w.first_page)
        second = confinement.page_extent(w.second.view, w.second_block, w.second_page)
        return places.disjoint(first, second)

    def lemmas(self, w: TwoPages) -> list[Instance]:
        first, second = w.first.view, w.second.view
        pitches = wellformed.pitch(first), wellformed.pitch(second)
        return [
            *in_view(w.first, w.first_block, w.first_page),
            *in_view(w.second, w.second_block, w.second_page),
            order(w.first_page, first.pages_per_block, first.page_stride),
            order(w.second_page, second.pages_per_block, second.page_stride),
            not_negative(w.first_page, first.page_stride),
            not_negative(w.second_page, second.page_stride),
            *both_orders(w.first_block, w.second_block, pitches[0]),
            order(pitches[0], pitches[1], w.second_block),
            not_negative(first.pages_per_block, first.page_stride),
        ]

    def example(self, variant: str) -> Numbers:
        return FRAME


class PagesOfOneGroup(NamedTuple):
    """Pages of two layers of a group, which have equally many pages in a block."""

    first: worlds.Side
    first_page: Int
    second: worlds.Side
    second_page: Int


class LayersOfAGroupAreDisjoint(Theorem[PagesOfOneGroup]):
    """Two layers of one group share no byte, whatever their pages."""

    id = "P32"
    law = "single-writer"

    def world(self, source: Source, variant: str) -> PagesOfOneGroup:
        number = source.integer
        first, second = worlds.side(source, "target"), worlds.side(source, "rival")
        return PagesOfOneGroup(first, number("ordinal"), second, number("other"))

    def hypotheses(self, w: PagesOfOneGroup) -> list[Bool]:
        first, second = w.first.view, w.second.view
        framed = all_of(first.storage == second.storage, wellformed.one_frame(first, second))
        return [
            wellformed.sizes_positive(first),
            wellformed.sizes_positive(second),
            first.pages_per_block == second.pages_per_block,
            0 <= w.first_page,
            w.first_page < first.pages,
            0 <= w.second_page,
            w.second_page < second.pages,
            wellformed.framed(first, second, True),
            implies(framed, wellformed.layers_disjoint(first, second)),
        ]

    def claim(self, w: PagesOfOneGroup) -> Bool:
        first, second = cells.page_place(w.first.view, w.first_page), cells.page_place(w.second.view, w.second_page)
        return places.disjoint(first, second)

    def lemmas(self, w: PagesOfOneGroup) -> list[Instance]:
        first, second = w.first.view, w.second.view
        apart = second.offset - first.offset
        stride = first.page_stride
        rows = floor_div(apart, stride)
        return [
            PageLiesInItsView.at(OnePage(first, w.first_page)),
            PageLiesInItsView.at(OnePage(second, w.second_page)),
            order(first.pages_per_block, second.pages_per_block, second.page_stride),
            *both_orders(stride, second.page_stride, first.pages_per_block),
            order(stride, second.page_stride, w.second_page),
            *both_orders(w.first_page, w.second_page + rows, stride),
        ]

    def example(self, variant: str) -> Numbers:
        return FRAME.but(rival__pages_per_block=2, rival__stride=100, rival__offset=60, rival__page_bytes=40)


def pooled(side: worlds.Side, block: Int, page: Int) -> list[Bool]:
    """W1, W3, W6: page number ``page`` of a block of the pool."""
    view = side.view
    return [
        wellformed.sizes_positive(view),
        wellformed.page_in_stride(view),
        wellformed.block_in_pool(block, side.blocks),
        0 <= page,
        page < view.pages_per_block,
    ]


def in_view(side: worlds.Side, block: Int, page: Int) -> list[Instance]:
    """The page lies in the range of its view."""
    size = side.view.pages_per_block
    return [
        PageIdsStayInThePool.at(PooledPage(side.blocks, size, block, page)),
        PageLiesInItsView.at(OnePage(side.view, arithmetic.expand(block, size, page))),
    ]


def _side(name: str, offset: int, page_bytes: int, stride: int, pages_per_block: int) -> dict[str, int]:
    shared = "" if name == "target" else f"{name}."
    return {
        f"{name}.storage": 0,
        f"{name}.offset": offset,
        f"{shared}page_bytes": page_bytes,
        f"{name}.stride": stride,
        f"{name}.blocks": 50,
        f"{name}.pages_per_block": pages_per_block,
        f"{name}.first": 0,
        f"{name}.count": 1,
        f"{name}.cached_tokens": 0,
        f"{name}.storage_bytes": 10_000,
        f"{name}.base": 0,
        f"{name}.memory": 0,
        f"{shared}states_per_page": 1,
        f"{shared}tokens_per_state": 1,
        f"{shared}part.start": 0,
        f"{shared}part.first": 0,
        f"{shared}part.count": 1,
        f"{shared}part.unit_bytes": 1,
    }


FRAME = Numbers(
    {
        **_side("target", 10, 50, 100, 2),
        **_side("rival", 20, 180, 200, 1),
        "ordinal": 3,
        "other": 7,
        "first.block": 3,
        "first.page": 1,
        "first.pool": 0,
        "second.block": 4,
        "second.page": 0,
        "second.pool": 0,
        "source.offset": 5,
        "index": 7,
    },
    {"target.block": {}, "rival.block": {}},
)
"""Blocks of 200 bytes: two pages of an attention layer, under the one page of a ring."""
