# SPDX-License-Identifier: Apache-2.0
"""The solver model against the judge and the reference: it refutes the same plans, and finds the same sources."""

from collections import Counter

import pytest

pytest.importorskip("z3")

from random_worlds import covered

from kvproof.fuzzing.generate import generate
from kvproof.fuzzing.model import TINY
from kvproof.fuzzing.mutate import mutate
from kvproof.fuzzing.source import RandomSource
from kvproof.reference.derive import derive
from kvproof.reference.faults import FAULTS
from kvproof.reference.rules import Refusal
from kvproof.spec.judge.plan_laws import judge_spans, required_spans
from kvproof.spec.model.find import Difference, Unsolvable, differs, find
from kvproof.spec.model.refute import Violation, refute
from kvproof.spec.model.solve import Unknown
from kvproof.spec.plan import Plan
from kvproof.spec.scope import Covered
from kvproof.spec.vocabulary import Case

Byte = tuple[str, int]


def requests(seed: int, count: int) -> list[tuple[int, Case, Covered]]:
    cases = [(number, generate(RandomSource(f"{seed}/{number}"), TINY)) for number in range(count)]
    return [(number, case, covered(case)) for number, case in cases if case.request is not None]


def laws_of_model(scope: Covered, plan: Plan) -> set[str]:
    answers = refute(scope, plan)
    assert not [answer for answer in answers if isinstance(answer, Unknown)]
    return {answer.law for answer in answers if isinstance(answer, Violation)}


def laws_of_judge(scope: Covered, plan: Plan) -> set[str]:
    return {finding.law for finding in judge_spans(scope, plan).findings}


def required_sources(scope: Covered) -> dict[Byte, Byte]:
    return {
        (target.storage, target.offset + index): (source.storage, source.offset + index)
        for source, target in required_spans(scope)
        for index in range(target.bytes)
    }


def sources_in(plan: Plan) -> dict[Byte, Byte]:
    """Where the last copy takes each byte from."""
    return {
        (copy.target.storage, copy.target.offset + index): (copy.source.storage, copy.source.offset + index)
        for copy in plan.copies
        for index in range(copy.target.bytes)
    }


@pytest.mark.parametrize("seed", range(2))
def test_no_counterexample_to_the_reference(seed: int) -> None:
    for number, case, scope in requests(seed, 20):
        assert (number, refute(scope, derive(case).plan)) == (number, ())


@pytest.mark.parametrize("seed", range(2))
def test_the_model_refutes_what_the_judge_finds(seed: int) -> None:
    seen = Counter[str]()
    for number, case, scope in requests(10 + seed, 24):
        source = RandomSource(number)
        name, plan = mutate(source, scope, derive(case).plan)
        laws = laws_of_model(scope, plan)
        assert (number, name, laws) == (number, name, laws_of_judge(scope, plan))
        seen.update(laws)
    assert len(seen) >= 5


@pytest.mark.parametrize("fault", FAULTS)
def test_the_model_refutes_faulty_rules(fault: str) -> None:
    refuted = 0
    for number, case, scope in requests(22, 25):
        try:
            plan = derive(case, FAULTS[fault].rules).plan
        except Refusal:
            continue
        laws = laws_of_model(scope, plan)
        assert (number, laws) == (number, laws_of_judge(scope, plan))
        refuted += bool(laws)
    assert refuted > 0


@pytest.mark.parametrize("seed", range(2))
def test_the_solver_finds_the_references_sources(seed: int) -> None:
    moved = 0
    for number, case, scope in requests(30 + seed, 60):
        found = find(scope)
        assert not isinstance(found, Unsolvable | Unknown)
        assert (number, found) == (number, required_sources(scope))
        plan = sources_in(derive(case).plan)
        assert (number, found) == (number, {byte: plan[byte] for byte in found})
        moved += len(found)
    assert moved > 300


@pytest.mark.parametrize("seed", range(2))
def test_no_lawful_plan_differs_from_the_references(seed: int) -> None:
    for number, case, scope in requests(40 + seed, 50):
        assert (number, differs(scope, derive(case).plan)) == (number, None)


def test_a_spoilt_plan_differs_exactly_where_its_last_copies_do() -> None:
    different = 0
    for number, case, scope in requests(50, 60):
        name, plan = mutate(RandomSource(number), scope, derive(case).plan)
        right, wrong = required_sources(scope), sources_in(plan)
        answer = differs(scope, plan)
        assert not isinstance(answer, Unknown)
        expected = {byte for byte, source in right.items() if wrong.get(byte) != source}
        assert (number, name, answer is None) == (number, name, not expected)
        if isinstance(answer, Difference):
            assert answer.target in expected
            assert answer.source == right[answer.target]
            different += 1
    assert different > 10


def test_a_small_budget_is_unknown_and_not_an_answer() -> None:
    _, case, scope = next(entry for entry in requests(0, 30) if len(derive(entry[1]).plan.copies) > 3)
    assert all(isinstance(answer, Unknown) for answer in refute(scope, derive(case).plan, budget=1))
    assert isinstance(differs(scope, derive(case).plan, budget=1), Unknown)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(100, 110))
def test_sweep(seed: int) -> None:
    for number, case, scope in requests(seed, 100):
        plan = derive(case).plan
        assert (number, refute(scope, plan), differs(scope, plan)) == (number, (), None)
        name, spoilt = mutate(RandomSource(number), scope, plan)
        assert (number, name, laws_of_model(scope, spoilt)) == (number, name, laws_of_judge(scope, spoilt))
