# SPDX-License-Identifier: Apache-2.0
"""From a claim over a symbolic world to a question for the engines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import z3

from kvproof.proofs import budgets
from kvproof.proofs.claim import Claim, Instance
from kvproof.proofs.engines.answer import Question
from kvproof.proofs.lift import Lift, check_linear
from kvproof.proofs.source import Numbers
from kvproof.proofs.symbols import Terms, applications, formula, subterms

LOGICS: dict[budgets.Query, str] = {"lemma": "QF_UFNIA", "theorem": "QF_UFLIA", "search": "QF_UFNIA"}


class Raw(NamedTuple):
    """A claim over a symbolic world, as formulas with real products and divisions."""

    name: str
    terms: Terms
    hypotheses: tuple[Any, ...]
    goal: Any
    instances: tuple[Any, ...]

    @property
    def names(self) -> frozenset[str]:
        """Names of the integers that hypotheses and claim depend on."""
        terms = subterms([*self.hypotheses, self.goal])
        return frozenset(term.decl().name() for term in terms if z3.is_const(term) and z3.is_int(term))


def raw(claim: Claim[Any], variant: str) -> Raw:
    """The claim's formulas."""
    terms = Terms()
    world = claim.world(terms, variant)
    instances = claim.lemmas(world)
    if not all(isinstance(instance, Instance) for instance in instances):
        raise TypeError(f"{claim.id} uses something that is no instance of a claim")
    return Raw(
        f"{claim.id}-{variant}" if variant else claim.id,
        terms,
        tuple(formula(hypothesis) for hypothesis in claim.hypotheses(world)),
        formula(claim.claim(world)),
        tuple(formula(instance.formula) for instance in instances),
    )


def direct(query: Raw) -> Question:
    """Do the hypotheses hold and the claim not? As it stands, for lemmas."""
    return question(query.name, "lemma", [*query.hypotheses, *query.instances, z3.Not(query.goal)])


def lifted(query: Raw) -> Question:
    """The same in linear form, for theorems. The engines refuting it proves the claim."""
    lift = Lift()
    formulas = [lift.formula(each) for each in (*query.hypotheses, *query.instances, z3.Not(query.goal))]
    formulas += lift.facts
    check_linear(formulas)
    return question(query.name, "theorem", formulas)


def bounded(query: Raw, bound: int) -> Question:
    """Is there a counterexample, of real products and divisions, with all integers in ``[0, bound]``?"""
    formulas = [*query.hypotheses, z3.Not(query.goal)]
    values = [*query.terms.integers.values(), *applications(formulas)]
    limits = [z3.And(0 <= value, value <= bound) for value in values]
    return question(f"{query.name}-within-{bound}", "search", [*limits, *formulas])


def fixed(query: Raw, numbers: Numbers) -> Question:
    """Are these numbers a counterexample?"""
    values = [query.terms.integers[name] == value for name, value in numbers.integers.items()]
    for name, table in numbers.functions.items():
        if isinstance(table, Mapping):
            values += [query.terms.functions[name](*arguments) == value for arguments, value in table.items()]
    return question(f"{query.name}-found", "search", [*values, *query.hypotheses, z3.Not(query.goal)])


def question(name: str, kind: budgets.Query, formulas: Iterable[Any]) -> Question:
    """These formulas as a question, in both languages."""
    listed = tuple(formulas)
    solver = z3.Solver()
    solver.add(*listed)
    text = "\n".join(
        line for line in solver.to_smt2().split("\n") if not line.startswith(("(check-sat)", "(set-info", ";"))
    )
    return Question(name, kind, LOGICS[kind], listed, text)
