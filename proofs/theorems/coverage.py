# SPDX-License-Identifier: Apache-2.0
"""The copies of the reference cover what is required."""

from __future__ import annotations

from kvproof.proofs import assumed, examples, worlds
from kvproof.proofs.claim import Instance, Theorem
from kvproof.proofs.source import Numbers, Source
from kvproof.proofs.theorems.cells import CellLiesInsideItsPage, CellOf
from kvproof.proofs.theorems.selection import (
    SelectedPagesIncludeRequiredStates,
    SelectedPagesIncludeRequiredStatesInAWindow,
    needed_from,
)
from kvproof.proofs.worlds import Transfer
from kvproof.spec import cells
from kvproof.spec.laws import alignment, coverage
from kvproof.spec.logic import Bool, all_of


class RequiredCellsAreCovered(Theorem[Transfer]):
    """The copy of its page ordinal, which is one of the plan's, writes every byte of a required cell."""

    id = "P14"
    law = "coverage"
    variants = ("unit-major", "state-major", "unit-major, sliding", "state-major, sliding")

    def world(self, source: Source, variant: str) -> Transfer:
        return worlds.transfer(source, variant)

    def hypotheses(self, w: Transfer) -> list[Bool]:
        target = w.target
        return [
            *assumed.paired(w),
            *assumed.retained(w),
            cells.holds(target.view, target.part, target.table, w.cell),
            cells.state_required(target.view, w.cell.state, needed_from(w), w.tokens),
            0 <= w.index,
            w.index < target.part.unit_bytes,
        ]

    def claim(self, w: Transfer) -> Bool:
        page = cells.page_ordinal(w.target.view, w.cell.state)
        # The plan's copies are numbered from the first selected page on; this is the one that covers the cell.
        number = page - w.first
        return all_of(
            0 <= number,
            number < w.end - w.first,
            coverage.byte_covered(w.copy(w.first + number), w.target.place(w.cell), w.index),
        )

    def lemmas(self, w: Transfer) -> list[Instance]:
        selection = (
            SelectedPagesIncludeRequiredStates if w.window is None else SelectedPagesIncludeRequiredStatesInAWindow
        )
        inside = CellLiesInsideItsPage.at(CellOf(w.target.view, w.target.part, w.cell))
        return [selection.at(w), inside]

    def example(self, variant: str) -> Numbers:
        return examples.PADDED_TAIL


class LiveBlocksAreCovered(Theorem[Transfer]):
    """The copy of the live block of a ssm or ring group brings every byte of each cell of it from that same cell."""

    id = "P33"
    law = "coverage"
    variants = ("unit-major", "state-major")

    def world(self, source: Source, variant: str) -> Transfer:
        # A block is one page, which is one state: page id = block id, and the table lists the live block at ordinal 0.
        return worlds.live(worlds.transfer(source, variant))

    def hypotheses(self, w: Transfer) -> list[Bool]:
        return [
            *assumed.paired(w),
            *assumed.held(w),
            cells.live_required(w.target.table.cached_tokens, w.tokens),
            0 <= w.index,
            w.index < w.target.part.unit_bytes,
        ]

    def claim(self, w: Transfer) -> Bool:
        copy, source, target = w.copy(0), w.source.place(w.cell), w.target.place(w.cell)
        return all_of(
            w.first_token < w.tokens,
            coverage.byte_covered(copy, target, w.index),
            alignment.aligned(copy, source, target),
        )

    def lemmas(self, w: Transfer) -> list[Instance]:
        return [CellLiesInsideItsPage.at(CellOf(w.target.view, w.target.part, w.cell))]

    def example(self, variant: str) -> Numbers:
        return examples.PADDED_TAIL
