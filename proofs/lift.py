# SPDX-License-Identifier: Apache-2.0
"""Lift: nonlinear formulas to linear ones that a solver decides quickly and steadily.

Every product of variables becomes one fresh integer, named by its monomial, so that equal products stay equal.
Every division or remainder becomes a pair of fresh integers with Euclid's facts. The result says less than the
original: if it is unsatisfiable, so is the original. A satisfiable one may be spurious.

This module is trusted. ``tests/proofs/test_lift.py`` compares lifted and raw formulas on random integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import z3

from kvproof.proofs.symbols import subterms

Term = Any
Monomial = tuple[str, ...]
Polynomial = dict[Monomial, int]
"""Coefficients by monomial; a monomial is a sorted tuple of atom names."""

_COMPARISONS = {
    z3.Z3_OP_LE: lambda difference: difference <= 0,
    z3.Z3_OP_LT: lambda difference: difference < 0,
    z3.Z3_OP_GE: lambda difference: difference >= 0,
    z3.Z3_OP_GT: lambda difference: difference > 0,
    z3.Z3_OP_EQ: lambda difference: difference == 0,
}
_CONNECTIVES = {
    z3.Z3_OP_AND,
    z3.Z3_OP_OR,
    z3.Z3_OP_NOT,
    z3.Z3_OP_IMPLIES,
    z3.Z3_OP_EQ,
    z3.Z3_OP_ITE,
    z3.Z3_OP_TRUE,
    z3.Z3_OP_FALSE,
    z3.Z3_OP_UNINTERPRETED,
}
_LINEAR = {
    *_COMPARISONS,
    *_CONNECTIVES,
    z3.Z3_OP_ADD,
    z3.Z3_OP_SUB,
    z3.Z3_OP_UMINUS,
    z3.Z3_OP_ANUM,
}


class NotLinear(Exception):
    """The term is outside the fragment: linear integers, uninterpreted functions, no quantifier."""


class Lift:
    """Lifts the formulas of one query, which share products and divisions. ``facts`` belong to the query.

    An atom is what a polynomial is a polynomial of: a constant, a quotient or remainder, or (numbered) a choice or the
    application of a function.
    """

    def __init__(self) -> None:
        self.facts: list[Term] = []
        self.atoms: dict[str, Term] = {}
        self.products: dict[Monomial, Term] = {}
        self.divisions: list[tuple[Polynomial, Polynomial, Term, Term]] = []
        self._names: dict[int, str] = {}
        self._known: dict[int, tuple[Term, Any]] = {}
        self._pairs: dict[str, tuple[Term, Term]] = {}

    def formula(self, term: Term) -> Term:
        """The lifted form of a Boolean term."""
        if not z3.is_app(term):
            raise NotLinear("quantifier")
        return self._once(term, self._formula)

    def _once(self, term: Term, lift: Callable[[Term], Any]) -> Any:
        """Terms are graphs that share much: each node is lifted once. The term is kept, so that its id stays its."""
        if term.get_id() not in self._known:
            self._known[term.get_id()] = (term, lift(term))
        return self._known[term.get_id()][1]

    def _formula(self, term: Term) -> Term:
        kind, children = term.decl().kind(), term.children()
        if kind in _COMPARISONS and z3.is_int(children[0]):
            difference = _add(self._polynomial(children[0]), self._polynomial(children[1]), -1)
            return _COMPARISONS[kind](self._linear(difference))
        if kind not in _CONNECTIVES:
            raise NotLinear(f"connective {term.decl().name()}")
        if not children:
            return term
        if kind == z3.Z3_OP_UNINTERPRETED:
            raise NotLinear(f"predicate {term.decl().name()}")
        return term.decl()(*[self.formula(child) for child in children])

    def _polynomial(self, term: Term) -> Polynomial:
        polynomial: Polynomial = self._once(term, self._expand)
        return polynomial

    def _expand(self, term: Term) -> Polynomial:
        kind, children = term.decl().kind(), term.children()
        if z3.is_int_value(term):
            return {(): term.as_long()} if term.as_long() else {}
        if kind == z3.Z3_OP_ADD:
            return self._sum(children, 1)
        if kind == z3.Z3_OP_SUB:
            return _add(self._polynomial(children[0]), self._sum(children[1:], 1), -1)
        if kind == z3.Z3_OP_UMINUS:
            return self._sum(children, -1)
        if kind == z3.Z3_OP_MUL:
            product: Polynomial = {(): 1}
            for child in children:
                product = _multiply(product, self._polynomial(child))
            return product
        if kind in (z3.Z3_OP_IDIV, z3.Z3_OP_MOD):
            quotient, remainder = self._division(*children)
            return self._atom(quotient if kind == z3.Z3_OP_IDIV else remainder)
        if kind == z3.Z3_OP_ITE:
            branches = [self._linear(self._polynomial(child)) for child in children[1:]]
            return self._atom(z3.If(self.formula(children[0]), *branches))
        if kind == z3.Z3_OP_UNINTERPRETED:
            return self._atom(term.decl()(*[self._linear(self._polynomial(child)) for child in children]))
        raise NotLinear(f"operator {term.decl().name()}")

    def _sum(self, terms: Iterable[Term], factor: int) -> Polynomial:
        total: Polynomial = {}
        for term in terms:
            total = _add(total, self._polynomial(term), factor)
        return total

    def _division(self, dividend: Term, divisor: Term) -> tuple[Term, Term]:
        above, below = self._polynomial(dividend), self._polynomial(divisor)
        key = f"{sorted(above.items())} / {sorted(below.items())}"
        if key not in self._pairs:
            number = len(self._pairs)
            quotient, remainder = z3.Int(f"quotient!{number}"), z3.Int(f"remainder!{number}")
            self._pairs[key] = (quotient, remainder)
            self.divisions.append((above, below, quotient, remainder))
            whole = _add(_multiply(below, self._atom(quotient)), self._atom(remainder))
            size = self._linear(below)
            euclid = z3.And(self._linear(whole) == self._linear(above), remainder >= 0, remainder < size)
            self.facts.append(z3.Implies(size > 0, euclid))
        return self._pairs[key]

    def _atom(self, term: Term) -> Polynomial:
        number = term.get_id()
        if number not in self._names:
            name = term.decl().name() if z3.is_const(term) else f"atom!{len(self._names)}"
            self._names[number] = name
            self.atoms[name] = term
        return {(self._names[number],): 1}

    def _linear(self, polynomial: Polynomial) -> Term:
        terms = [self._scaled(monomial, factor) for monomial, factor in sorted(polynomial.items())]
        if not terms:
            return z3.IntVal(0)
        return terms[0] if len(terms) == 1 else z3.Sum(*terms)

    def _scaled(self, monomial: Monomial, factor: int) -> Term:
        if not monomial:
            return z3.IntVal(factor)
        term = self.atoms[monomial[0]] if len(monomial) == 1 else self._product(monomial)
        return term if factor == 1 else factor * term

    def _product(self, monomial: Monomial) -> Term:
        return self.products.setdefault(monomial, z3.Int("*".join(monomial)))


def check_linear(formulas: Iterable[Term]) -> None:
    """The fragment check: raises where a query has a product of variables, a division, a quantifier, another sort."""
    for term in subterms(formulas):
        if not z3.is_app(term):
            raise NotLinear("quantifier")
        kind = term.decl().kind()
        if kind == z3.Z3_OP_MUL:
            if sum(not z3.is_int_value(child) for child in term.children()) > 1:
                raise NotLinear(f"product {term}")
        elif kind not in _LINEAR:
            raise NotLinear(f"operator {term.decl().name()}")
        if not (z3.is_int(term) or z3.is_bool(term)):
            raise NotLinear(f"sort {term.sort()}")


def _add(first: Polynomial, second: Polynomial, factor: int = 1) -> Polynomial:
    total = dict(first)
    for monomial, coefficient in second.items():
        total[monomial] = total.get(monomial, 0) + factor * coefficient
    return {monomial: coefficient for monomial, coefficient in total.items() if coefficient}


def _multiply(first: Polynomial, second: Polynomial) -> Polynomial:
    product: Polynomial = {}
    for left, coefficient in first.items():
        for right, factor in second.items():
            monomial = tuple(sorted(left + right))
            product[monomial] = product.get(monomial, 0) + coefficient * factor
    return {monomial: coefficient for monomial, coefficient in product.items() if coefficient}
