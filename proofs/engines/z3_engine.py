# SPDX-License-Identifier: Apache-2.0
"""z3: a fresh context a question, because it counts resources per context."""

from __future__ import annotations

import z3

from kvproof.proofs import budgets
from kvproof.proofs.engines.answer import Answer, Question, Status

_EXHAUSTED = ("canceled", "resource")
"""Parts of the reasons that z3 gives for an exhausted budget; it has two."""


class Z3Engine:
    """The z3 solver in this process."""

    name = "z3"

    def check(self, question: Question, seed: int) -> Answer:
        """Whether the question's formulas are satisfiable, with a model where they are."""
        context = z3.Context()
        solver = z3.Solver(ctx=context)
        solver.set("rlimit", budgets.Z3_UNITS[question.kind])
        solver.set("random_seed", seed)
        solver.set("ctrl_c", False)  # z3 would take an interrupt as its own, and answer unknown
        try:
            solver.add(*[formula.translate(context) for formula in question.formulas])
            status: Status = _STATUS[str(solver.check())]
        except z3.Z3Exception as error:
            return Answer("error", reason=f"z3: {error}")
        units = _units(solver)
        if status == "unknown":
            reason = solver.reason_unknown()
            exhausted = any(word in reason for word in _EXHAUSTED)
            return Answer("unknown", units, "budget exhausted" if exhausted else reason)
        return Answer(status, units, model=solver.model().translate(z3.main_ctx()) if status == "sat" else None)


_STATUS: dict[str, Status] = {"unsat": "unsat", "sat": "sat", "unknown": "unknown"}


def _units(solver: z3.Solver) -> int:
    statistics = solver.statistics()
    return int(statistics.get_key_value("rlimit count")) if "rlimit count" in statistics.keys() else 0  # noqa: SIM118


ENGINE = Z3Engine()
