# SPDX-License-Identifier: Apache-2.0
"""Names as z3 terms, formulas from what claims return, and numbers back from a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import z3

from kvproof.proofs.source import Function, Numbers
from kvproof.spec.logic import Bool, Int

Term = Any
"""A z3 expression; z3 ships no types."""


class Terms:
    """A source of symbolic integers that remembers the names it was asked for."""

    def __init__(self) -> None:
        self.integers: dict[str, Term] = {}
        self.functions: dict[str, Term] = {}

    def integer(self, name: str) -> Int:
        """The integer constant of that name."""
        return self.integers.setdefault(name, z3.Int(name))

    def function(self, name: str, arity: int = 1) -> Function:
        """The uninterpreted function of that name."""
        found: Function = self.functions.setdefault(name, z3.Function(name, *[z3.IntSort()] * (arity + 1)))
        return found

    def numbers(self, model: Term, formulas: Iterable[Term]) -> Numbers:
        """What the model says of all names, as numbers that the same world can be built from.

        A function is listed where the formulas apply it: nothing else of it counts.
        """
        integers = {name: _value(model, term) for name, term in self.integers.items()}
        functions: dict[str, dict[tuple[int, ...], int]] = {name: {} for name in self.functions}
        for term in applications(formulas):
            arguments = tuple(_value(model, child) for child in term.children())
            functions[term.decl().name()][arguments] = _value(model, term)
        return Numbers(integers, functions)


def formula(condition: Bool) -> Term:
    """A z3 formula, where a claim may have come out as a plain bool."""
    return condition if isinstance(condition, z3.ExprRef) else z3.BoolVal(bool(condition))


def applications(formulas: Iterable[Term]) -> list[Term]:
    """All terms in which an uninterpreted function is applied, each once."""
    return [term for term in subterms(formulas) if term.decl().kind() == z3.Z3_OP_UNINTERPRETED and term.num_args()]


def subterms(formulas: Iterable[Term]) -> Iterator[Term]:
    """Every subterm of the formulas, each once; of a quantifier nothing but itself."""
    seen: set[int] = set()
    waiting = list(formulas)
    while waiting:
        term = waiting.pop()
        if term.get_id() in seen:
            continue
        seen.add(term.get_id())
        yield term
        if z3.is_app(term):
            waiting.extend(term.children())


def _value(model: Term, term: Term) -> int:
    return int(model.eval(term, model_completion=True).as_long())
