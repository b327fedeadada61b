# SPDX-License-Identifier: Apache-2.0
"""The judge's sweeps against brute force by the kernels: on right plans, spoilt ones and those of faulty rules."""

from collections import Counter
from itertools import combinations

import pytest
from hypothesis import assume, given
from random_worlds import covered, examples, worlds, worlds_and_source

from kvproof.fuzzing.differ import list_differences, plan_differences, table_differences
from kvproof.fuzzing.enumerate import World, enumerate_plan
from kvproof.fuzzing.enumerate_tables import enumerate_tables
from kvproof.fuzzing.model import TINY
from kvproof.fuzzing.mutate import mutate
from kvproof.fuzzing.mutate_lists import MUTATIONS as LISTS
from kvproof.fuzzing.mutate_lists import mutate_lists
from kvproof.fuzzing.mutate_tables import mutate_tables
from kvproof.fuzzing.run import case_of
from kvproof.fuzzing.source import RandomSource, Source
from kvproof.fuzzing.tags import bytes_of, carry_out, fits, wrong_bytes
from kvproof.reference.derive import derive
from kvproof.reference.export import descriptor_file, synthetic_bases
from kvproof.reference.faults import FAULTS
from kvproof.reference.rules import Refusal
from kvproof.spec.judge.judge import judge, judge_lists
from kvproof.spec.judge.plan_laws import judge_spans
from kvproof.spec.judge.table_laws import table_findings
from kvproof.spec.judge.verdict import LAWS
from kvproof.spec.laws.economy import not_moved_twice
from kvproof.spec.plan import Plan
from kvproof.spec.scope import Covered
from kvproof.spec.vocabulary import Case


@examples(120)
@given(worlds(TINY))
def test_a_lawful_plan_breaks_no_law_by_enumeration(case: Case) -> None:
    scope, derived = covered(case), derive(case)
    assert enumerate_tables(scope, derived.tables) == frozenset()
    if scope.tokens is not None:
        answer = enumerate_plan(scope, derived.plan)
        assert (answer.laws, answer.corrupt, answer.contested) == (frozenset(), frozenset(), frozenset())
        assert answer.ratios == judge(scope, derived.plan).ratios


@examples(200)
@given(worlds_and_source(TINY))
def test_the_judge_finds_what_enumeration_finds_on_spoilt_plans(drawn: tuple[Case, Source]) -> None:
    case, source = drawn
    scope = covered(case)
    assume(scope.tokens is not None)
    name, plan = mutate(source, scope, derive(case).plan)
    assert [f"{name}: {words}" for words in plan_differences(scope, plan)] == []


@examples(60)
@given(worlds_and_source(TINY))
def test_twice_spoilt_plans_too(drawn: tuple[Case, Source]) -> None:
    case, source = drawn
    scope = covered(case)
    assume(scope.tokens is not None)
    first, plan = mutate(source, scope, derive(case).plan)
    second, plan = mutate(source, scope, plan)
    assert [f"{first}, {second}: {words}" for words in plan_differences(scope, plan)] == []


def test_the_judge_finds_what_enumeration_finds_on_spoilt_tables() -> None:
    seen = Counter[str]()
    for number in range(150):
        case = case_of(7, number * 3)
        scope, tables = covered(case), derive(case).tables
        for turn in range(2):
            name, spoilt = mutate_tables(RandomSource(f"{number}/{turn}"), tables)
            assert [f"{number}, {name}: {words}" for words in table_differences(scope, spoilt)] == []
            seen.update(finding.law for finding in table_findings(scope, spoilt))
    assert {"bounds", "folding", "descriptor-ids", "parity"} <= set(seen)


def test_the_judge_finds_what_enumeration_finds_on_spoilt_lists() -> None:
    seen: dict[str, Counter[str]] = {name: Counter() for name in LISTS}
    alone = Counter[str]()
    for number in range(150):
        case = case_of(9, number * 3)
        scope, derived = covered(case), derive(case)
        lists = descriptor_file(case, derived, synthetic_bases(case))
        assert list(list_differences(case, scope, lists, derived.plan)) == []
        for turn in range(4 if lists.transfers else 0):
            source = RandomSource(f"{number}/{turn}")
            name, spoilt = mutate_lists(source, lists)
            if turn == 3:
                _, spoilt = mutate_lists(source, spoilt)
            assert [f"{number}, {name}: {words}" for words in list_differences(case, scope, spoilt, derived.plan)] == []
            answer = judge_lists(case, spoilt)
            seen[name].update(answer.laws or ("none",))
            alone.update(answer.laws if len(answer.laws) == 1 else ())
    assert all(len(laws) > 2 for laws in seen.values()), "each change breaks laws, and different ones"
    assert {"folding", "bounds", "parity", "descriptor-ids"} <= set(alone), "each law of lists is broken alone too"


@pytest.mark.parametrize("fault", FAULTS)
def test_the_judge_finds_what_enumeration_finds_on_faulty_rules(fault: str) -> None:
    outcomes = Counter[tuple[str, ...]]()
    for number in range(90):
        case = case_of(5, number * 3)  # every third is tiny
        scope = covered(case)
        try:
            derived = derive(case, FAULTS[fault].rules)
        except Refusal:
            continue
        judged = {finding.law for finding in table_findings(scope, derived.tables)}
        enumerated = set(enumerate_tables(scope, derived.tables))
        assert (number, judged) == (number, enumerated)
        if scope.tokens is not None:
            assert [f"{number}: {words}" for words in plan_differences(scope, derived.plan)] == []
            enumerated |= enumerate_plan(scope, derived.plan).laws
        laws = judge(scope, derived.plan, derived.tables).laws
        alone = enumerated - {"economy"} or enumerated
        assert laws == tuple(law for law in LAWS if law in alone)
        outcomes[laws] += 1
    assert len(outcomes) > 2, "the rule breaks laws, and not always"


def test_memory_ends_wrong_where_the_judge_says() -> None:
    """On memory in which no two bytes are alike: corrupt bytes end wrong, contested ones may, no others do."""
    seen = Counter[str]()
    for number in range(250):
        case, source = case_of(6, number * 3), RandomSource(number)
        scope = covered(case)
        if scope.tokens is None:
            continue
        name, plan = mutate(source, scope, derive(case).plan)
        if not fits(scope, plan):
            continue
        wrong = wrong_bytes(scope, carry_out(scope, plan))
        answer = judge_spans(scope, plan)
        corrupt, contested = bytes_of(answer.corrupt), bytes_of(answer.contested)
        assert (number, name, wrong - corrupt - contested) == (number, name, frozenset())
        assert (number, name, corrupt - contested - wrong) == (number, name, frozenset())
        seen[name] += bool(wrong)
    assert {"drop copy", "shift source", "shift target", "swap sources", "two sources", "zero received"} <= {
        name for name, count in seen.items() if count
    }


def moved_twice(covered: Covered, plan: Plan) -> bool:
    """L11 the other way: some useful byte is moved twice, by the kernel for two copies."""
    world = World(covered, plan)
    for group in covered.consumer.worker.groups:
        for extent in world.useful(group):
            for byte in range(extent.offset, extent.offset + extent.bytes):
                pairs = combinations(plan.copies, 2)
                if not all(not_moved_twice(first, second, extent.storage, byte) for first, second in pairs):
                    return True
    return False


def test_bytes_moved_twice_are_waste() -> None:
    """The kernel for two copies says what the ratio says, where nothing is moved for nothing."""
    for number in range(120):
        case, source = case_of(8, number * 3), RandomSource(number)
        scope, plan = covered(case), derive(case).plan
        if scope.tokens is None or not plan.copies:
            continue
        assert not moved_twice(scope, plan)
        copy = source.choice(plan.copies)
        again = type(plan)((*plan.copies, copy), plan.zeroes)
        assert moved_twice(scope, again)
        assert enumerate_plan(scope, again).laws == {"economy"}
