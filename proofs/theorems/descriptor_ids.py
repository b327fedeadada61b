# SPDX-License-Identifier: Apache-2.0
"""Descriptor ids: distinct, and decoded to the page they were made of."""

from __future__ import annotations

from typing import NamedTuple

from kvproof.proofs import assumed, examples, worlds
from kvproof.proofs.claim import Instance, Theorem
from kvproof.proofs.lemmas.prefix_sums import built, earlier_ends_first
from kvproof.proofs.source import Function, Numbers, Source
from kvproof.proofs.theorems.alignment import distinct_blocks, same_or_apart
from kvproof.proofs.theorems.alignment import listed as page_listed
from kvproof.proofs.worlds import Transfer
from kvproof.reference import arithmetic
from kvproof.spec.laws import descriptor_ids
from kvproof.spec.logic import Bool, Int, all_of, implies


class TwoIds(NamedTuple):
    """Regions with their starts and page counts; a page of one and a page of another."""

    start: Function
    pages: Function
    first: Int
    first_page: Int
    second: Int
    second_page: Int


class AttentionIdsDecodeToTheirPage(Theorem[TwoIds]):
    """Two descriptors have one id only if they are one, and an id leads back to its region and page."""

    id = "P21"
    law = "descriptor-ids"

    def world(self, source: Source, variant: str) -> TwoIds:
        numbers = [source.integer(name) for name in ("first", "first_page", "second", "second_page")]
        return TwoIds(source.function("start"), source.function("pages"), *numbers)

    def hypotheses(self, w: TwoIds) -> list[Bool]:
        return [
            0 <= w.first_page,
            w.first_page < w.pages(w.first),
            *built(w.start, w.pages, w.first),
            0 <= w.second_page,
            w.second_page < w.pages(w.second),
            *built(w.start, w.pages, w.second),
        ]

    def claim(self, w: TwoIds) -> Bool:
        first = arithmetic.descriptor_id(w.start(w.first), w.first_page)
        second = arithmetic.descriptor_id(w.start(w.second), w.second_page)
        start, end = w.start(w.second), w.start(w.second + 1)
        found = descriptor_ids.id_in_range(first, start, end)
        return all_of(
            descriptor_ids.distinct(w.first, first, w.second, second),
            implies(w.first == w.second, descriptor_ids.distinct(w.first_page, first, w.second_page, second)),
            descriptor_ids.id_in_range(second, start, end),
            implies(found, all_of(w.first == w.second, arithmetic.page_of_id(start, first) == w.first_page)),
        )

    def lemmas(self, w: TwoIds) -> list[Instance]:
        return [
            earlier_ends_first(w.start, w.pages, w.first, w.second),
            earlier_ends_first(w.start, w.pages, w.second, w.first),
        ]

    def example(self, variant: str) -> Numbers:
        numbers = {"first": 0, "first_page": 22, "second": 1, "second_page": 20}
        return Numbers(numbers, {"start": examples.uneven_start, "pages": examples.uneven})


class IdsOfARegionAreDistinct(Theorem[Transfer]):
    """The ids that a group's pages have in one region of the target are distinct, as its page ordinals are."""

    id = "P38"
    law = "descriptor-ids"

    def world(self, source: Source, variant: str) -> Transfer:
        return worlds.transfer(source, variant)

    def hypotheses(self, w: Transfer) -> list[Bool]:
        return [
            *assumed.paired(w),
            *assumed.selected(w, w.ordinal),
            *assumed.selected(w, w.other),
            assumed.reaches(w),
            distinct_blocks(w.target, w.ordinal, w.other),
        ]

    def claim(self, w: Transfer) -> Bool:
        first = arithmetic.descriptor_id(w.index, w.target.page(w.ordinal))
        second = arithmetic.descriptor_id(w.index, w.target.page(w.other))
        return descriptor_ids.distinct(w.ordinal, first, w.other, second)

    def lemmas(self, w: Transfer) -> list[Instance]:
        return [page_listed(w, w.ordinal), page_listed(w, w.other), *same_or_apart(w.target, w.ordinal, w.other)]

    def example(self, variant: str) -> Numbers:
        return examples.PADDED_TAIL.but(other=1)
