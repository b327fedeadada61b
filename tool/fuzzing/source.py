# SPDX-License-Identifier: Apache-2.0
"""Where a generator takes its decisions from: one primitive, so that random numbers and hypothesis both serve.

Small answers are the simple ones everywhere, so that whoever minimises answers simplifies the case.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Source(ABC):
    """A stream of decisions."""

    @abstractmethod
    def integer(self, low: int, high: int) -> int:
        """An integer in ``[low, high]``."""

    def choice(self, options: Sequence[T]) -> T:
        """One of the options, the simplest first."""
        return options[self.integer(0, len(options) - 1)]

    def chance(self, percent: int) -> bool:
        """True in so many of a hundred cases."""
        return self.integer(0, 99) >= 100 - percent

    def rarely(self, percent: int, low: int, high: int) -> int:
        """``low`` mostly; in so many of a hundred cases an integer in ``(low, high]``."""
        return self.integer(low + 1, high) if low < high and self.chance(percent) else low

    def weighted(self, options: Sequence[tuple[T, int]]) -> T:
        """One of the options, by weight."""
        mark = self.integer(0, sum(weight for _, weight in options) - 1)
        for option, weight in options:
            if mark < weight:
                return option
            mark -= weight
        raise AssertionError("weights are positive")

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in some order; all answers zero leave them as they are."""
        result = list(items)
        for index in range(len(result) - 1):
            other = self.integer(index, len(result) - 1)
            result[index], result[other] = result[other], result[index]
        return result


class RandomSource(Source):
    """Decisions of a seeded random generator: the same for the same seed, everywhere."""

    def __init__(self, seed: int | str) -> None:
        self._random = Random(seed)

    def integer(self, low: int, high: int) -> int:
        return self._random.randint(low, high)
