# SPDX-License-Identifier: Apache-2.0
"""What is asked of an engine, and what it answers."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Protocol

from kvproof.proofs import budgets

Status = Literal["unsat", "sat", "unknown", "error"]


class Question(NamedTuple):
    """Are these formulas satisfiable together? ``text`` is the same in SMT-LIB, without the final check."""

    name: str
    kind: budgets.Query
    logic: str
    formulas: tuple[Any, ...]
    text: str


class Answer(NamedTuple):
    """The engine's answer; ``units`` of its own resource; a reason where it has no answer."""

    status: Status
    units: int = 0
    reason: str = ""
    model: Any = None


class Engine(Protocol):
    """A solver with a budget in its own units, a fixed seed and no state between questions."""

    @property
    def name(self) -> str:
        """The name it is asked for by."""

    def check(self, question: Question, seed: int) -> Answer:
        """Whether the question's formulas are satisfiable."""
