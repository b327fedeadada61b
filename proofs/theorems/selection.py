# SPDX-License-Identifier: Apache-2.0
"""Which pages the reference selects: all that hold something required, none that does not, and all of them listed."""

from __future__ import annotations

from typing import ClassVar

from kvproof.proofs import assumed, examples, worlds
from kvproof.proofs.claim import Instance, Theorem
from kvproof.proofs.lemmas.division import unique
from kvproof.proofs.lemmas.products import not_negative, order, positive
from kvproof.proofs.source import Numbers, Source
from kvproof.proofs.theorems.cells import StateLiesInItsPage, StateOf
from kvproof.proofs.worlds import Transfer
from kvproof.reference import arithmetic
from kvproof.spec import cells, wellformed
from kvproof.spec.laws import economy
from kvproof.spec.logic import Bool, Int, all_of, implies, maximum, mod, negate
from kvproof.spec.vocabulary import Law


class _Selection(Theorem[Transfer]):
    """A theorem over a transfer, with the padded tail as its example."""

    law: ClassVar[Law | None] = "coverage"

    def world(self, source: Source, variant: str) -> Transfer:
        return worlds.transfer(source, variant)

    def example(self, variant: str) -> Numbers:
        return examples.PADDED_TAIL


class SelectedPagesIncludeRequiredStates(_Selection):
    """The page of each required state is selected."""

    id = "P09"

    def hypotheses(self, w: Transfer) -> list[Bool]:
        return [
            wellformed.sizes_positive(w.target.view),
            *assumed.retained(w),
            cells.state_required(w.target.view, w.cell.state, needed_from(w), w.tokens),
        ]

    def claim(self, w: Transfer) -> Bool:
        page = cells.page_ordinal(w.target.view, w.cell.state)
        return all_of(w.first_token == needed_from(w), w.first_token < w.tokens, w.first <= page, page < w.end)

    def lemmas(self, w: Transfer) -> list[Instance]:
        view = w.target.view
        page = cells.page_ordinal(view, w.cell.state)
        return [StateLiesInItsPage.at(StateOf(view, w.cell.state)), *page_bounds(w, page)]


class SelectedPagesIncludeRequiredStatesInAWindow(SelectedPagesIncludeRequiredStates):
    """The page of each required state of a sliding group is selected."""

    id = "P10"
    variants = ("sliding",)


class SelectedPagesAreListed(_Selection):
    """Each selected page lies in a listed block that is not null.

    Where there is no null block, because the table reaches; where there is one, because each needed token is listed.
    """

    id = "P11"
    variants = ("reaching", "reaching, sliding", "null", "null, sliding")

    def hypotheses(self, w: Transfer) -> list[Bool]:
        rule = [wellformed.sizes_positive(w.target.view), *assumed.retained(w), *assumed.selected(w, w.ordinal)]
        if w.target.table.null is None:
            return [*rule, assumed.reaches(w)]
        return [*rule, wellformed.token_listed(w.target.table, w.target.block_tokens, needed_token(w))]

    def claim(self, w: Transfer) -> Bool:
        return cells.block_listed(w.target.table, w.target.block_ordinal(w.ordinal))

    def lemmas(self, w: Transfer) -> list[Instance]:
        view, table, size = w.target.view, w.target.table, w.target.block_tokens
        block, number = w.target.block_ordinal(w.ordinal), w.target.number(w.ordinal)
        token = needed_token(w)
        found, rest = arithmetic.first_page(token, size), mod(token, size)
        return [
            *page_bounds(w, w.ordinal),
            positive(view.page_tokens, view.pages_per_block),
            order(w.ordinal, block * view.pages_per_block + number, view.page_tokens),
            order(number, view.pages_per_block, view.page_tokens),
            not_negative(number, view.page_tokens),
            order(block, table.first, size),
            order(table.first + table.count, block, size),
            unique(size, found, rest, block, token - block * size),
        ]


class SelectedPagesHoldNeededTokens(_Selection):
    """Each selected page holds a needed token, so that its copy moves nothing useless."""

    id = "P28"
    law = "economy"
    variants = ("", "sliding")

    def hypotheses(self, w: Transfer) -> list[Bool]:
        return [
            *assumed.paired(w),
            *assumed.retained(w),
            *assumed.selected(w, w.ordinal),
            0 <= w.index,
            w.index < w.target.view.page_bytes,
        ]

    def claim(self, w: Transfer) -> Bool:
        view = w.target.view
        page = cells.page_place(view, cells.page_of(view, w.target.table, w.ordinal))
        return all_of(
            cells.page_needed(view, w.ordinal, needed_from(w), w.tokens),
            economy.byte_useful(w.copy(w.ordinal), w.index, page),
        )

    def lemmas(self, w: Transfer) -> list[Instance]:
        return page_bounds(w, w.ordinal)


class OpaquePagesAreSelectedExactly(_Selection):
    """An opaque page is selected exactly where it is required."""

    id = "P29"
    variants = ("", "sliding")

    def hypotheses(self, w: Transfer) -> list[Bool]:
        return [wellformed.sizes_positive(w.target.view), *assumed.retained(w)]

    def claim(self, w: Transfer) -> Bool:
        required = cells.opaque_required(w.target.view, w.ordinal, needed_from(w), w.tokens)
        chosen = all_of(*assumed.selected(w, w.ordinal))
        return all_of(implies(required, chosen), implies(chosen, required))

    def lemmas(self, w: Transfer) -> list[Instance]:
        return page_bounds(w, w.ordinal)


class NeededStatesAreRequired(_Selection):
    """A state all of whose tokens are needed is required, one with a token past the prompt or none needed is not."""

    id = "P30"

    def hypotheses(self, w: Transfer) -> list[Bool]:
        return [wellformed.sizes_positive(w.target.view), 0 <= w.cell.state]

    def claim(self, w: Transfer) -> Bool:
        size, state, first = w.target.view.tokens_per_state, w.cell.state, needed_from(w)
        required = cells.state_required(w.target.view, state, first, w.tokens)
        end = state * size + size
        return all_of(
            implies(all_of(first <= state * size, end <= w.tokens), required),
            implies(w.tokens < end, negate(required)),
            implies(end <= first, negate(required)),
        )


def needed_from(w: Transfer) -> Int:
    """First needed token, as the law says it."""
    return cells.first_needed_token(w.target.table.cached_tokens, w.tokens, w.window, w.retained)


def needed_token(w: Transfer) -> Int:
    """A needed token of the page at ``w.ordinal``, if it has one."""
    return maximum(w.first_token, w.ordinal * w.target.view.page_tokens)


def page_bounds(w: Transfer, page: Int) -> list[Instance]:
    """How a page's tokens lie to the first and the last selected page's."""
    view = w.target.view
    size = view.page_tokens
    return [
        positive(view.states_per_page, view.tokens_per_state),
        order(w.first, page, size),
        order(page, w.first, size),
        order(page, w.end, size),
        order(w.end, page, size),
    ]
