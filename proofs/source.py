# SPDX-License-Identifier: Apache-2.0
"""Where a world takes its integers from: names become solver terms (``kvproof.proofs.symbols``) or, here, numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from kvproof.spec.logic import Int

Function = Callable[..., Int]


class Source(Protocol):
    """Gives a world its integers and integer functions, by name."""

    def integer(self, name: str) -> Int:
        """The integer of that name."""

    def function(self, name: str, arity: int = 1) -> Function:
        """The total function of that name, from integers to integers."""


@dataclass(frozen=True)
class Numbers:
    """Integers by name; functions as callables, or as a mapping with a default for everything it does not list."""

    integers: Mapping[str, int]
    functions: Mapping[str, Function | Mapping[tuple[int, ...], int]] = field(default_factory=dict)
    default: int = 0

    def integer(self, name: str) -> int:
        """The integer of that name; a name that is missing is a mistake of whoever wrote the numbers."""
        return self.integers[name]

    def function(self, name: str, arity: int = 1) -> Function:
        """The function of that name."""
        found = self.functions[name]
        if not isinstance(found, Mapping):
            return found
        table = found
        return lambda *arguments: table.get(arguments, self.default)

    def but(self, **integers: int) -> Numbers:
        """The same with some integers changed. Dots in names are written as double underscores."""
        changed = {name.replace("__", "."): value for name, value in integers.items()}
        return replace(self, integers={**self.integers, **changed})

    def with_functions(self, **functions: Function | Mapping[tuple[int, ...], int]) -> Numbers:
        """The same with some functions changed. Dots in names are written as double underscores."""
        changed = {name.replace("__", "."): value for name, value in functions.items()}
        return replace(self, functions={**self.functions, **changed})


def listed(blocks: tuple[int, ...], first: int = 0) -> Mapping[tuple[int, ...], int]:
    """A block table as a function: ``blocks[i]`` at ordinal ``first + i``, 0 elsewhere."""
    return {(first + index,): block for index, block in enumerate(blocks)}
