# SPDX-License-Identifier: Apache-2.0
"""First descriptor ids of a list of regions: prefix sums of page counts, as the reference adds them up."""

from __future__ import annotations

from typing import NamedTuple

from kvproof.proofs.claim import Instance, Lemma
from kvproof.proofs.source import Function, Numbers, Source, listed
from kvproof.reference import arithmetic
from kvproof.spec import wellformed
from kvproof.spec.logic import Bool, Int, all_of, implies


class Regions(NamedTuple):
    """``start(r)`` and ``pages(r)`` of region r, and two regions of the list."""

    start: Function
    pages: Function
    first: Int
    second: Int
    case: str


class PrefixSumsAreMonotone(Lemma[Regions]):
    """A region's descriptor ids all lie before those of any later region of its list.

    By induction over the later one. The base is its successor; the step goes from ``second`` to the one after.
    """

    id = "P05"
    law = "descriptor-ids"
    variants = ("base", "step")

    def world(self, source: Source, variant: str) -> Regions:
        first, second = source.integer("first"), source.integer("second")
        return Regions(source.function("start"), source.function("pages"), first, second, variant)

    def hypotheses(self, w: Regions) -> list[Bool]:
        if w.case == "base":
            return built(w.start, w.pages, w.first)
        return [w.first < w.second, before(w, w.second), *built(w.start, w.pages, w.second)]

    def claim(self, w: Regions) -> Bool:
        if w.case == "base":
            added = wellformed.counts_add_up(w.start(w.first), w.pages(w.first), w.start(w.first + 1))
            return all_of(before(w, w.first + 1), added)
        return before(w, w.second + 1)

    def example(self, variant: str) -> Numbers:
        tables = {"start": listed((0, 100, 120)), "pages": listed((100, 20, 30))}
        return Numbers({"first": 0, "second": 1}, tables)


def built(start: Function, pages: Function, region: Int) -> list[Bool]:
    """How the reference goes from the start of a region to that of the next."""
    return [0 <= pages(region), start(region + 1) == arithmetic.next_start(start(region), pages(region))]


def before(w: Regions, later: Int) -> Bool:
    """The first region ends before the later one starts."""
    return w.start(w.first) + w.pages(w.first) <= w.start(later)


def earlier_ends_first(start: Function, pages: Function, first: Int, second: Int) -> Instance:
    """What base and step prove together: if ``first < second``, the first region ends before the second starts.

    Of a list that is built so throughout (W20). That base and step make an induction is trusted, not proven.
    """
    w = Regions(start, pages, first, second, "step")
    return Instance(PrefixSumsAreMonotone.id, implies(first < second, before(w, second)))
