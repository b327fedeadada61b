# SPDX-License-Identifier: Apache-2.0
"""Making a failing case small: every step that keeps it in scope and failing is taken, until none is left."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from kvproof.fuzzing.simplify import STEPS, Step
from kvproof.spec.scope import Covered, assess
from kvproof.spec.validate import problems
from kvproof.spec.vocabulary import Case

Fails = Callable[[Case, Covered], bool]

TRIES_LIMIT = 6_000


def shrink(case: Case, fails: Fails, seconds: float, steps: tuple[Step, ...] = STEPS) -> Case:
    """The smallest case found that still fails. Ends after so many seconds, or when no step makes it simpler."""
    deadline = monotonic() + seconds
    tries = 0
    again = True
    while again:
        again = False
        for step in steps:
            found: Case | None = case
            while found is not None:
                found = None
                for candidate in step(case):
                    tries += 1
                    if tries > TRIES_LIMIT or monotonic() > deadline:
                        return case
                    if candidate != case and still_fails(candidate, fails):
                        found = case = candidate
                        again = True
                        break
    return case


def still_fails(case: Case, fails: Fails) -> bool:
    """The case is well-formed, in scope, and fails."""
    if any(not worker.layers for worker in case.worker) or next(problems(case), None) is not None:
        return False
    scope = assess(case)
    return isinstance(scope, Covered) and fails(case, scope)
