# SPDX-License-Identifier: Apache-2.0
"""Division with remainder."""

from __future__ import annotations

from typing import NamedTuple

from kvproof.proofs.claim import Instance, Lemma
from kvproof.proofs.source import Numbers, Source
from kvproof.spec.logic import Bool, Int, all_of, ceil_div, floor_div, mod


class Quotients(NamedTuple):
    """Two ways to write one number as divisor × quotient + remainder."""

    divisor: Int
    first: Int
    first_rest: Int
    second: Int
    second_rest: Int


class DivisionIsUnique(Lemma[Quotients]):
    """A number has one quotient and one remainder by a positive divisor."""

    id = "P03"

    def world(self, source: Source, variant: str) -> Quotients:
        names = ("divisor", "first", "first_rest", "second", "second_rest")
        return Quotients(*[source.integer(name) for name in names])

    def hypotheses(self, w: Quotients) -> list[Bool]:
        return [
            0 < w.divisor,
            0 <= w.first_rest,
            w.first_rest < w.divisor,
            0 <= w.second_rest,
            w.second_rest < w.divisor,
            w.divisor * w.first + w.first_rest == w.divisor * w.second + w.second_rest,
        ]

    def claim(self, w: Quotients) -> Bool:
        return all_of(w.first == w.second, w.first_rest == w.second_rest)

    def example(self, variant: str) -> Numbers:
        return Numbers({"divisor": 64, "first": 2, "first_rest": 32, "second": 2, "second_rest": 32})


class Fraction(NamedTuple):
    """A dividend and a divisor."""

    dividend: Int
    divisor: Int


class CeilingIsTight(Lemma[Fraction]):
    """A rounded-up quotient times the divisor reaches the dividend, and does so by less than one divisor."""

    id = "P04"

    def world(self, source: Source, variant: str) -> Fraction:
        return Fraction(source.integer("dividend"), source.integer("divisor"))

    def hypotheses(self, w: Fraction) -> list[Bool]:
        return [0 < w.divisor]

    def claim(self, w: Fraction) -> Bool:
        reached = ceil_div(w.dividend, w.divisor) * w.divisor
        return all_of(w.dividend <= reached, reached < w.dividend + w.divisor)

    def example(self, variant: str) -> Numbers:
        return Numbers({"dividend": 160, "divisor": 64})


def unique(divisor: Int, first: Int, first_rest: Int, second: Int, second_rest: Int) -> Instance:
    """Equal numbers, written with remainders in range, have equal quotients and equal remainders."""
    return DivisionIsUnique.at(Quotients(divisor, first, first_rest, second, second_rest))


def same_division(first: Int, second: Int, divisor: Int) -> Instance:
    """Equal dividends have equal quotients and remainders."""
    return unique(
        divisor, floor_div(first, divisor), mod(first, divisor), floor_div(second, divisor), mod(second, divisor)
    )


def ceiling(dividend: Int, divisor: Int) -> Instance:
    """dividend <= ceiling × divisor < dividend + divisor."""
    return CeilingIsTight.at(Fraction(dividend, divisor))
