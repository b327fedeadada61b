# SPDX-License-Identifier: Apache-2.0
"""Faulty plans: which copies are made, and from where."""

from __future__ import annotations

from kvproof.proofs import assumed, on_reference, worlds
from kvproof.proofs.claim import Refutation
from kvproof.proofs.source import Source
from kvproof.proofs.theorems.selection import needed_from
from kvproof.proofs.worlds import Transfer
from kvproof.reference import arithmetic
from kvproof.reference.faults import suffix_selection
from kvproof.spec import cells, wellformed
from kvproof.spec.laws import alignment, bounds, coverage, economy
from kvproof.spec.logic import Bool, Int
from kvproof.spec.plan import Copy


class _FaultyPlan(Refutation[Transfer]):
    """A faulty rule for one layer."""

    def world(self, source: Source, variant: str) -> Transfer:
        return worlds.transfer(source, variant)


class LastPageIsNotCopied(_FaultyPlan):
    """Rounding the number of pages down, so that a partial last page is not copied, still covers what is required."""

    id = "R01"
    law = "coverage"

    def hypotheses(self, w: Transfer) -> list[Bool]:
        return [
            *assumed.paired(w),
            *assumed.cached(w),
            assumed.reaches(w),
            cells.holds(w.target.view, w.target.part, w.target.table, w.cell),
            cells.state_required(w.target.view, w.cell.state, needed_from(w), w.tokens),
            # One copy is all that the rule makes, so that it is this one or none.
            arithmetic.first_page(w.tokens, w.target.view.page_tokens) == w.first + 1,
            0 <= w.index,
            w.index < w.target.part.unit_bytes,
        ]

    def claim(self, w: Transfer) -> Bool:
        return coverage.byte_covered(w.copy(w.first), w.target.place(w.cell), w.index)

    def words(self, w: Transfer) -> str:
        return f"prompt length {w.tokens}, page length {w.target.view.page_tokens}: page {w.first + 1} never arrives"


class SuffixSelection(_FaultyPlan):
    """Pairing the consumer's uncached pages with as many from the end of the producer's keeps cells aligned."""

    id = "R02"
    law = "alignment"

    def hypotheses(self, w: Transfer) -> list[Bool]:
        wanted, available = self.counts(w)
        return [
            *assumed.paired(w),
            *assumed.cached(w),
            0 < w.tokens,
            *assumed.held(w),
            assumed.reaches(w),
            wellformed.table_reaches(w.source.table, w.source.block_tokens, w.first_token, w.tokens),
            cells.state_required(w.target.view, w.cell.state, needed_from(w), w.tokens),
            # No block is listed in vain: what the sides list differs by the padding of their last blocks alone.
            *[
                (side.table.first + side.table.count - 1) * side.block_tokens < w.tokens
                for side in (w.source, w.target)
            ],
            # Fewer pages than wanted: the rule refuses.
            wanted <= available,
        ]

    def claim(self, w: Transfer) -> Bool:
        return alignment.aligned(self.copy(w), w.source.place(w.cell), w.target.place(w.cell))

    def copy(self, w: Transfer) -> Copy:
        """What the rule copies into the page of the cell."""
        page = cells.page_ordinal(w.target.view, w.cell.state)
        wanted, available = self.counts(w)
        index = suffix_selection.source_index(available, wanted, page - w.first)
        first = w.source.table.first * w.source.view.pages_per_block
        source, target = w.source, w.target
        return arithmetic.copy_of(source.region, source.page(first + index), target.region, target.page(page))

    def counts(self, w: Transfer) -> tuple[Int, Int]:
        """Pages that the consumer lists from the first uncached one on, and all that the producer lists."""
        source, target = w.source, w.target
        end = (target.table.first + target.table.count) * target.view.pages_per_block
        return end - w.first, source.table.count * source.view.pages_per_block

    def on_reference(self, w: Transfer) -> bool:
        """The rule that once shipped breaks alignment in this very case."""
        return on_reference.breaks(on_reference.transfer_case(w), "suffix-selection", "alignment")

    def words(self, w: Transfer) -> str:
        wanted, available = self.counts(w)
        return (
            f"prompt length {w.tokens}, page length {w.target.view.page_tokens}, {available} pages on the producer, "
            f"{wanted} wanted: state {w.cell.state} comes from another page"
        )


class StorageMayBeTooShort(_FaultyPlan):
    """Copies stay in their storage even where a view need not fit it (W5 dropped)."""

    id = "R04"
    law = "bounds"

    def hypotheses(self, w: Transfer) -> list[Bool]:
        return [*assumed.paired(w), assumed.in_pool(w.source, w.ordinal), assumed.in_pool(w.target, w.ordinal)]

    def claim(self, w: Transfer) -> Bool:
        return bounds.span_in_storage(w.copy(w.ordinal).target, w.target.storage_bytes)


class IdsMayLeaveThePool(_FaultyPlan):
    """Page ids stay in the pool even where a listed block need not be one of it (W6 dropped)."""

    id = "R05"
    law = "bounds"

    def hypotheses(self, w: Transfer) -> list[Bool]:
        return [*assumed.paired(w), 0 < w.target.blocks]

    def claim(self, w: Transfer) -> Bool:
        return bounds.id_in_pool(w.target.page(w.ordinal), w.target.view.pages)


class AddressesMayWrap(_FaultyPlan):
    """Addresses fit 64 bits even where a storage may lie at the end of them (W5 dropped)."""

    id = "R06"
    law = "bounds"

    def hypotheses(self, w: Transfer) -> list[Bool]:
        side = w.target
        return [
            *assumed.paired(w),
            assumed.in_pool(side, w.ordinal),
            wellformed.view_in_storage(side.view, side.storage_bytes),
        ]

    def claim(self, w: Transfer) -> Bool:
        span = w.copy(w.ordinal).target
        return bounds.address_fits(bounds.ADDRESS_LIMIT - w.index, span.offset, span.bytes)


class PaddingIsCopied(_FaultyPlan):
    """Copying every uncached page that is listed moves nothing but pages that hold a needed token."""

    id = "R29"
    law = "economy"

    def hypotheses(self, w: Transfer) -> list[Bool]:
        view, table = w.target.view, w.target.table
        return [
            *assumed.paired(w),
            *assumed.cached(w),
            assumed.reaches(w),
            0 < w.tokens,
            w.first_token < w.tokens,
            w.first <= w.ordinal,
            cells.block_listed(table, w.target.block_ordinal(w.ordinal)),
            # One page is useful, so that it is this one or none.
            w.end == w.first + 1,
            0 <= w.index,
            w.index < view.page_bytes,
            wellformed.blocks_distinct(table, w.target.block_ordinal(w.first), w.target.block_ordinal(w.ordinal)),
        ]

    def claim(self, w: Transfer) -> Bool:
        useful = cells.page_place(w.target.view, w.target.page(w.first))
        return economy.byte_useful(w.copy(w.ordinal), w.index, useful)

    def words(self, w: Transfer) -> str:
        return f"page {w.ordinal} lies past the prompt, whose length is {w.tokens}, and is moved"


class CachedPagesMayBePartial(_FaultyPlan):
    """Cached cells stay untouched even where the cached prefix ends within a page (W14 dropped)."""

    id = "R30"
    law = "alignment"

    def hypotheses(self, w: Transfer) -> list[Bool]:
        target = w.target
        return [
            *assumed.paired(w),
            wellformed.cached_in_prompt(target.table.cached_tokens, w.tokens),
            assumed.reaches(w),
            cells.holds(target.view, target.part, target.table, w.cell),
            (w.cell.state + 1) * target.view.tokens_per_state <= target.table.cached_tokens,
            *assumed.selected(w, w.other),
        ]

    def claim(self, w: Transfer) -> Bool:
        return alignment.untouched(w.copy(w.other), w.target.place(w.cell))
