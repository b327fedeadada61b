# SPDX-License-Identifier: Apache-2.0
"""One question to the solver: a fresh context, and a budget in the solver's own units."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import z3

from kvproof.spec.logic import Bool, Int

BUDGET = 20_000_000
"""Most resource units for one question."""


class Unknown(msgspec.Struct, frozen=True):
    """The budget ran out before there was an answer."""

    question: str
    reason: str


Values = dict[str, int]
"""What the solver chose for each variable asked about."""


def solve(question: str, formula: Bool, asked: Mapping[str, Int], budget: int = BUDGET) -> Values | Unknown | None:
    """Values of what is asked that make the formula true; None if nothing does."""
    context = z3.Context()
    solver = z3.Solver(ctx=context)
    solver.set("rlimit", budget)
    solver.set("random_seed", 0)
    solver.set("ctrl_c", False)  # z3 would take an interrupt as its own, and answer unknown
    solver.add(_term(formula).translate(context))
    outcome = solver.check()
    if outcome == z3.unsat:
        return None
    if outcome != z3.sat:
        return Unknown(question, str(solver.reason_unknown()))
    model = solver.model()
    return {
        name: model.eval(_term(term).translate(context), model_completion=True).as_long()
        for name, term in asked.items()
    }


def _term(value: Int | Bool) -> z3.ExprRef:
    if isinstance(value, z3.ExprRef):
        return value
    return z3.BoolVal(value) if isinstance(value, bool) else z3.IntVal(value)
