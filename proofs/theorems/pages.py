# SPDX-License-Identifier: Apache-2.0
"""Blocks, pages and page ids: how the reference expands a block table."""

from __future__ import annotations

from typing import NamedTuple

from kvproof.proofs.claim import Instance, Theorem
from kvproof.proofs.lemmas.division import unique
from kvproof.proofs.lemmas.products import both_orders, not_negative, order, positive
from kvproof.proofs.source import Numbers, Source
from kvproof.reference import arithmetic
from kvproof.spec import wellformed
from kvproof.spec.laws import bounds
from kvproof.spec.logic import Bool, Int, all_of, floor_div, mod


class Pages(NamedTuple):
    """Pages ``first_page`` and ``second_page`` of two blocks."""

    pages_per_block: Int
    first: Int
    first_page: Int
    second: Int
    second_page: Int


class BlocksExpandWithoutCollision(Theorem[Pages]):
    """Two different pages, of one block or of two, never get the same page id."""

    id = "P06"
    law = "alignment"

    def world(self, source: Source, variant: str) -> Pages:
        names = ("pages_per_block", "first", "first_page", "second", "second_page")
        return Pages(*[source.integer(name) for name in names])

    def hypotheses(self, w: Pages) -> list[Bool]:
        return [
            0 <= w.first_page,
            w.first_page < w.pages_per_block,
            0 <= w.second_page,
            w.second_page < w.pages_per_block,
            arithmetic.expand(w.first, w.pages_per_block, w.first_page)
            == arithmetic.expand(w.second, w.pages_per_block, w.second_page),
        ]

    def claim(self, w: Pages) -> Bool:
        return all_of(w.first == w.second, w.first_page == w.second_page)

    def lemmas(self, w: Pages) -> list[Instance]:
        return both_orders(w.first, w.second, w.pages_per_block)

    def example(self, variant: str) -> Numbers:
        return Numbers({"pages_per_block": 2, "first": 10, "first_page": 1, "second": 10, "second_page": 1})


class TokenPlace(NamedTuple):
    """A token: ``rest`` tokens into page ``page`` of the block of ordinal ``block``."""

    page_tokens: Int
    pages_per_block: Int
    block: Int
    page: Int
    rest: Int


class ExpansionFollowsTokens(Theorem[TokenPlace]):
    """The page ordinal of a token counts the pages of the blocks before its own, then those before it in its block."""

    id = "P07"
    law = "alignment"

    def world(self, source: Source, variant: str) -> TokenPlace:
        names = ("page_tokens", "pages_per_block", "block", "page", "rest")
        return TokenPlace(*[source.integer(name) for name in names])

    def hypotheses(self, w: TokenPlace) -> list[Bool]:
        return [
            0 < w.page_tokens,
            0 < w.pages_per_block,
            0 <= w.page,
            w.page < w.pages_per_block,
            0 <= w.rest,
            w.rest < w.page_tokens,
        ]

    def claim(self, w: TokenPlace) -> Bool:
        ordinal = arithmetic.first_page(self.token(w), w.page_tokens)
        return all_of(
            ordinal == arithmetic.expand(w.block, w.pages_per_block, w.page),
            arithmetic.page_at(ordinal, w.pages_per_block, 0, lambda index: index) == ordinal,
            floor_div(ordinal, w.pages_per_block) == w.block,
            mod(ordinal, w.pages_per_block) == w.page,
        )

    def lemmas(self, w: TokenPlace) -> list[Instance]:
        token, ordinal = self.token(w), w.block * w.pages_per_block + w.page
        found, size = floor_div(token, w.page_tokens), w.pages_per_block
        return [
            unique(w.page_tokens, found, mod(token, w.page_tokens), ordinal, w.rest),
            unique(size, floor_div(found, size), mod(found, size), w.block, w.page),
        ]

    def token(self, w: TokenPlace) -> Int:
        """The token's position in the prompt."""
        return w.block * (w.page_tokens * w.pages_per_block) + w.page * w.page_tokens + w.rest

    def example(self, variant: str) -> Numbers:
        return Numbers({"page_tokens": 64, "pages_per_block": 2, "block": 1, "page": 0, "rest": 31})


class PooledPage(NamedTuple):
    """A page of a block of a pool."""

    blocks: Int
    pages_per_block: Int
    block: Int
    page: Int


class PageIdsStayInThePool(Theorem[PooledPage]):
    """The page ids of a block of the pool are among the pool's pages."""

    id = "P08"
    law = "bounds"

    def world(self, source: Source, variant: str) -> PooledPage:
        return PooledPage(*[source.integer(name) for name in ("blocks", "pages_per_block", "block", "page")])

    def hypotheses(self, w: PooledPage) -> list[Bool]:
        return [wellformed.block_in_pool(w.block, w.blocks), 0 <= w.page, w.page < w.pages_per_block]

    def claim(self, w: PooledPage) -> Bool:
        pages = arithmetic.page_count(w.blocks, w.pages_per_block)
        return bounds.id_in_pool(arithmetic.expand(w.block, w.pages_per_block, w.page), pages)

    def lemmas(self, w: PooledPage) -> list[Instance]:
        return [order(w.block, w.blocks, w.pages_per_block), not_negative(w.block, w.pages_per_block)]

    def example(self, variant: str) -> Numbers:
        return Numbers({"blocks": 50, "pages_per_block": 2, "block": 11, "page": 1})


class Sizes(NamedTuple):
    """The tokens of a block, how many pages it has, and the tokens of a state."""

    block_tokens: Int
    pages_per_block: Int
    tokens_per_state: Int


class SizesDivideIntoPages(Theorem[Sizes]):
    """A block is whole pages and a page whole states, so that all token lengths are products of counts."""

    id = "P26"
    law = "alignment"

    def world(self, source: Source, variant: str) -> Sizes:
        return Sizes(*[source.integer(name) for name in ("block_tokens", "pages_per_block", "tokens_per_state")])

    def hypotheses(self, w: Sizes) -> list[Bool]:
        return [
            0 < w.block_tokens,
            0 < w.pages_per_block,
            0 < w.tokens_per_state,
            wellformed.tokens_divide(w.block_tokens, w.pages_per_block, w.tokens_per_state),
        ]

    def claim(self, w: Sizes) -> Bool:
        page = arithmetic.page_tokens(w.block_tokens, w.pages_per_block)
        states = floor_div(page, w.tokens_per_state)
        return all_of(
            page * w.pages_per_block == w.block_tokens, states * w.tokens_per_state == page, 0 < page, 0 < states
        )

    def lemmas(self, w: Sizes) -> list[Instance]:
        page = arithmetic.page_tokens(w.block_tokens, w.pages_per_block)
        states = floor_div(page, w.tokens_per_state)
        return [
            order(page, 0, w.pages_per_block),
            order(states, 0, w.tokens_per_state),
            order(page, 1, w.pages_per_block),
            order(states, 1, w.tokens_per_state),
            positive(page, w.pages_per_block),
        ]

    def example(self, variant: str) -> Numbers:
        return Numbers({"block_tokens": 128, "pages_per_block": 2, "tokens_per_state": 4})
