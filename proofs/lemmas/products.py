# SPDX-License-Identifier: Apache-2.0
"""Products and order."""

from __future__ import annotations

from typing import NamedTuple

from kvproof.proofs.claim import Instance, Lemma
from kvproof.proofs.source import Numbers, Source
from kvproof.spec.logic import Bool, Int, all_of, implies


class Factors(NamedTuple):
    """Two numbers and what both are multiplied by."""

    first: Int
    second: Int
    factor: Int


class ProductKeepsOrder(Lemma[Factors]):
    """Multiplying by a number that is not negative keeps order: the smaller multiple ends before the larger begins."""

    id = "P01"

    def world(self, source: Source, variant: str) -> Factors:
        return Factors(source.integer("first"), source.integer("second"), source.integer("factor"))

    def hypotheses(self, w: Factors) -> list[Bool]:
        return [0 <= w.factor]

    def claim(self, w: Factors) -> Bool:
        first, second = w.first * w.factor, w.second * w.factor
        return all_of(
            implies(w.first < w.second, first + w.factor <= second),
            implies(w.first == w.second, first == second),
        )

    def example(self, variant: str) -> Numbers:
        return Numbers({"first": 2, "second": 5, "factor": 64})


class PositiveProductDominates(Lemma[Factors]):
    """A product of two positive numbers is at least each of them."""

    id = "P02"

    def world(self, source: Source, variant: str) -> Factors:
        return Factors(source.integer("first"), 0, source.integer("factor"))

    def hypotheses(self, w: Factors) -> list[Bool]:
        return [0 < w.first, 0 < w.factor]

    def claim(self, w: Factors) -> Bool:
        product = w.first * w.factor
        return all_of(w.first <= product, w.factor <= product)

    def example(self, variant: str) -> Numbers:
        return Numbers({"first": 64, "factor": 2})


def order(first: Int, second: Int, factor: Int) -> Instance:
    """If first < second, then first × factor + factor <= second × factor; equal if equal."""
    return ProductKeepsOrder.at(Factors(first, second, factor))


def both_orders(first: Int, second: Int, factor: Int) -> list[Instance]:
    """The order of the two products, whichever number is smaller."""
    return [order(first, second, factor), order(second, first, factor)]


def not_negative(number: Int, factor: Int) -> Instance:
    """If number >= 0, then number × factor >= 0."""
    return order(-1, number, factor)


def positive(first: Int, factor: Int) -> Instance:
    """If both are positive, so is the product, and no smaller than either."""
    return PositiveProductDominates.at(Factors(first, 0, factor))
