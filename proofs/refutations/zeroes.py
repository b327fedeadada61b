# SPDX-License-Identifier: Apache-2.0
"""Faulty zeroing: a page too many at either end, or one too few."""

from __future__ import annotations

from kvproof.proofs import assumed, worlds
from kvproof.proofs.claim import Refutation
from kvproof.proofs.source import Source
from kvproof.proofs.theorems.selection import needed_from
from kvproof.proofs.worlds import Transfer
from kvproof.spec import cells
from kvproof.spec.laws import confinement, zeroing
from kvproof.spec.logic import Bool


class _FaultyZeroing(Refutation[Transfer]):
    """A faulty rule for the pages of one layer of the consumer."""

    def world(self, source: Source, variant: str) -> Transfer:
        return worlds.transfer(source, variant)

    def hypotheses(self, w: Transfer) -> list[Bool]:
        return [
            *assumed.paired(w),
            *assumed.cached(w),
            assumed.reaches(w),
            w.first_token < w.tokens,
            0 <= w.index,
            w.index < w.target.view.page_bytes,
        ]


class OnePageZeroedTooFar(_FaultyZeroing):
    """Zeroing one page past the block of the last token stays in the request's own blocks."""

    id = "R03"
    law = "confinement"

    def hypotheses(self, w: Transfer) -> list[Bool]:
        # One block of one page is listed, so that this page is all that the request owns.
        one = [w.target.view.pages_per_block == 1, w.target.table.count == 1]
        return [*super().hypotheses(w), *one]

    def claim(self, w: Transfer) -> Bool:
        target = w.target
        own = confinement.page_extent(target.view, target.table.block(target.table.first), 0)
        return confinement.byte_confined(target.zero(w.end_of_blocks), w.index, own)


class ReceivedPageIsZeroed(_FaultyZeroing):
    """Zeroing from the page that holds the last token on spares every required cell."""

    id = "R23"
    law = "zeroing"

    def hypotheses(self, w: Transfer) -> list[Bool]:
        target = w.target
        return [
            *super().hypotheses(w),
            cells.holds(target.view, target.part, target.table, w.cell),
            cells.state_required(target.view, w.cell.state, needed_from(w), w.tokens),
        ]

    def claim(self, w: Transfer) -> Bool:
        return zeroing.zero_spares(w.target.zero(w.end - 1), w.target.place(w.cell))


class OwedPageIsNotZeroed(_FaultyZeroing):
    """Leaving out the last page of the last block still zeroes all pages past the prompt."""

    id = "R24"
    law = "zeroing"

    def hypotheses(self, w: Transfer) -> list[Bool]:
        target = w.target
        return [
            *super().hypotheses(w),
            zeroing.page_owed(target.view, target.table, w.ordinal, needed_from(w), w.tokens),
            # One page is all that the rule zeroes, so that it is this one or none.
            w.end_of_blocks - 1 == w.end + 1,
        ]

    def claim(self, w: Transfer) -> Bool:
        return zeroing.byte_zeroed(w.target.zero(w.end), w.target.view, w.target.table, w.ordinal, w.index)
