# SPDX-License-Identifier: Apache-2.0
"""cvc5, by way of SMT-LIB text; where it refutes a theorem's negation it checks its own proof."""

from __future__ import annotations

import cvc5

from kvproof.proofs import budgets
from kvproof.proofs.engines.answer import Answer, Question


class Cvc5Engine:
    """The cvc5 solver in this process."""

    name = "cvc5"

    def check(self, question: Question, seed: int) -> Answer:
        """Whether the question's formulas are satisfiable. The logic is set, so that cvc5 rejects what is outside."""
        solver = cvc5.Solver(cvc5.TermManager())
        solver.setOption("rlimit", str(budgets.CVC5_UNITS[question.kind]))
        solver.setOption("seed", str(seed))
        solver.setOption("sat-random-seed", str(seed))
        if question.kind != "search":
            solver.setOption("produce-proofs", "true")
            solver.setOption("check-proofs", "true")
        try:
            _read(solver, question)
            result = solver.checkSat()
        except RuntimeError as error:
            return Answer("error", reason=f"cvc5: {' '.join(str(error).split())}")
        units = int(solver.getStatistics().get(internal=True)["resource::resourceUnitsUsed"]["value"])
        if result.isUnsat():
            return Answer("unsat", units)
        if result.isSat():
            return Answer("sat", units)
        reason = str(result.getUnknownExplanation())
        return Answer("unknown", units, "budget exhausted" if "RESOURCEOUT" in reason else reason)


def _read(solver: cvc5.Solver, question: Question) -> None:
    parser = cvc5.InputParser(solver)
    solver.setLogic(question.logic)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, question.text, question.name)
    symbols = parser.getSymbolManager()
    while not (command := parser.nextCommand()).isNull():
        command.invoke(solver, symbols)


ENGINE = Cvc5Engine()
