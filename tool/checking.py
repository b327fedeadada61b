# SPDX-License-Identifier: Apache-2.0
"""One case checked: judged, both routes compared, held against its expectations, and every fault that it lists run."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kvproof import expectations
from kvproof.comparing import disagreements
from kvproof.exits import Exit, exit_of, worst
from kvproof.reference.derive import derive
from kvproof.reference.faults.registry import FAULTS, Fault
from kvproof.reference.rules import Refusal
from kvproof.spec.judge.judge import judge
from kvproof.spec.judge.spans import BudgetExceeded
from kvproof.spec.judge.verdict import Judgement
from kvproof.spec.scope import Covered, Scope, assess
from kvproof.spec.vocabulary import Case, Law
from kvproof.words import headline


class Problem(msgspec.Struct, frozen=True):
    """Something that is not as it should be, and the exit status it deserves."""

    status: Exit
    words: str


class FaultRun(msgspec.Struct, frozen=True):
    """What a faulty rule does to a case. ``judgement`` is None where the budget ran out."""

    fault: str
    judgement: Judgement | None
    expected: tuple[Law, ...] | str | None
    problems: tuple[Problem, ...] = ()


class Checked(msgspec.Struct, frozen=True):
    """The answer for one case."""

    case: Case
    judgement: Judgement | None
    faults: tuple[FaultRun, ...]
    problems: tuple[Problem, ...]

    @property
    def status(self) -> Exit:
        """The worst of all problems, those of the fault runs included."""
        faults = (problem for run in self.faults for problem in run.problems)
        return worst(problem.status for problem in (*self.problems, *faults))


def check_case(case: Case) -> Checked:
    """Check everything that the case allows to be checked."""
    scope = assess(case)
    try:
        judgement, problems = _lawful(case, scope)
    except BudgetExceeded as error:
        return Checked(case, None, (), (Problem(Exit.UNKNOWN, f"unknown: {error}"),))
    runs = tuple(run_fault(case, scope, FAULTS[name]) for name in case.expect.faults)
    return Checked(case, judgement, runs, tuple(problems))


def _lawful(case: Case, scope: Scope) -> tuple[Judgement, list[Problem]]:
    """The reference's plan and tables: judged, compared with gpu_impl's, and with what the case expects."""
    if not isinstance(scope, Covered):
        judgement = judge(scope)
        return judgement, list(_verdict_problems(case, judgement))
    try:
        derived = derive(case)
    except Refusal as refusal:
        words = f"the judge finds a lawful plan possible, the reference refuses: {refusal.reason}"
        return Judgement("refused", reason=refusal.reason), [Problem(Exit.DISAGREEMENT, words)]
    judgement = judge(scope, derived.plan, derived.tables)
    problems = list(_verdict_problems(case, judgement))
    problems += [Problem(Exit.DISAGREEMENT, f"routes differ: {words}") for words in disagreements(case, derived)]
    misses = [
        *expectations.ratio_misses(case.expect, "lawful", judgement),
        *expectations.table_misses(case, scope, derived),
    ]
    return judgement, problems + [Problem(Exit.BROKEN, words) for words in misses]


def _verdict_problems(case: Case, judgement: Judgement) -> Iterator[Problem]:
    """A verdict that is not the expected one; or, where none is expected, one that is not a pass."""
    misses = list(expectations.verdict_misses(case.expect, judgement))
    yield from (Problem(Exit.BROKEN, words) for words in misses)
    if case.expect.verdict is None or misses:
        status = exit_of(judgement.verdict)
        if status != Exit.OK:
            yield Problem(status, f"{judgement.verdict}: {headline(judgement)}")


def run_fault(case: Case, scope: Scope, fault: Fault) -> FaultRun:
    """Run a faulty rule on a case and hold it against what the case lists, if it lists the rule."""
    wanted = case.expect.faults.get(fault.name)
    try:
        judgement = judge_fault(case, scope, fault)
    except BudgetExceeded as error:
        return FaultRun(fault.name, None, wanted, (Problem(Exit.UNKNOWN, f"{fault.name}: unknown: {error}"),))
    misses = [f"expect.faults.{words}" for words in _fault_misses(fault.name, wanted, judgement)]
    misses += expectations.ratio_misses(case.expect, fault.name, judgement)
    return FaultRun(fault.name, judgement, wanted, tuple(Problem(Exit.BROKEN, words) for words in misses))


def _fault_misses(name: str, wanted: tuple[Law, ...] | str | None, judgement: Judgement) -> Iterator[str]:
    if wanted is None:
        return
    found = judgement.verdict if judgement.verdict in ("refused", "not-covered") else judgement.laws
    words = expectations.fault_miss(wanted, found)
    if words is not None:
        yield f"{name}: {words}"


def judge_fault(case: Case, scope: Scope, fault: Fault) -> Judgement:
    """The judgement on what a faulty rule does; ``refused`` where the rule refuses."""
    if not isinstance(scope, Covered):
        return judge(scope)
    try:
        derived = derive(case, fault.rules)
    except Refusal as refusal:
        return Judgement("refused", reason=refusal.reason)
    return judge(scope, derived.plan, derived.tables)
