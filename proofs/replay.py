# SPDX-License-Identifier: Apache-2.0
"""Claims on integers: vacuity, replay of a counterexample through the same functions, and making it small."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any

from kvproof.proofs.claim import Claim
from kvproof.proofs.source import Numbers
from kvproof.spec.logic import all_of


def assumed(claim: Claim[Any], variant: str, numbers: Numbers) -> bool:
    """The hypotheses hold of these numbers. A divisor of zero is no world at all."""
    try:
        return bool(all_of(*claim.hypotheses(claim.world(numbers, variant))))
    except ValueError:
        return False


def holds(claim: Claim[Any], variant: str, numbers: Numbers) -> bool:
    """The claim itself holds of these numbers, for which the hypotheses do."""
    return bool(claim.claim(claim.world(numbers, variant)))


def contradicts(claim: Claim[Any], variant: str, numbers: Numbers) -> bool:
    """The numbers are a counterexample."""
    try:
        return assumed(claim, variant, numbers) and not holds(claim, variant, numbers)
    except ValueError:
        return False


def smallest(claim: Claim[Any], variant: str, numbers: Numbers) -> Numbers:
    """A counterexample none of whose numbers can be lowered, nor any two of its integers together."""
    while True:
        simpler = (less for lower in (_lower, _lower_two) for less in lower(numbers))
        less = next((less for less in simpler if contradicts(claim, variant, less)), None)
        if less is None:
            return numbers
        numbers = less


def _lower(numbers: Numbers) -> Iterator[Numbers]:
    for name, value in numbers.integers.items():
        for less in range(min(value, 0), value):
            yield replace(numbers, integers={**numbers.integers, name: less})
    for name, table in numbers.functions.items():
        if isinstance(table, Mapping):
            for arguments, value in table.items():
                for less in range(min(value, 0), value):
                    changed = {**table, arguments: less}
                    yield replace(numbers, functions={**numbers.functions, name: changed})


def _lower_two(numbers: Numbers) -> Iterator[Numbers]:
    for first, second in combinations([name for name, value in numbers.integers.items() if value > 0], 2):
        lower = {name: numbers.integers[name] - 1 for name in (first, second)}
        yield replace(numbers, integers={**numbers.integers, **lower})


def as_dict(numbers: Numbers, relevant: frozenset[str]) -> dict[str, int]:
    """The numbers for a report: relevant integers by name, tables as ``name(arguments)``."""
    found = {name: value for name, value in numbers.integers.items() if name in relevant}
    for name, table in numbers.functions.items():
        if isinstance(table, Mapping):
            found |= {f"{name}({', '.join(map(str, key))})": value for key, value in sorted(table.items())}
    return found
