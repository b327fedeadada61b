# SPDX-License-Identifier: Apache-2.0
"""The generator itself: all it makes is in scope, and it makes everything often enough."""

from collections import Counter

import pytest
from hypothesis import given
from random_worlds import covered, examples, worlds, worlds_and_source

from kvproof.fuzzing.features import FEATURES, features
from kvproof.fuzzing.generate import generate
from kvproof.fuzzing.model import MEDIUM, SMALL, TINY, Size
from kvproof.fuzzing.mutate import MUTATIONS, mutate
from kvproof.fuzzing.run import case_of
from kvproof.fuzzing.source import RandomSource, Source
from kvproof.fuzzing.violate import VIOLATIONS, violate
from kvproof.reference.derive import derive
from kvproof.spec.judge.judge import judge
from kvproof.spec.judge.plan_laws import required_spans
from kvproof.spec.scope import assess
from kvproof.spec.validate import check_case
from kvproof.spec.vocabulary import TOKEN_KINDS, Case


class Simplest(Source):
    """Always the first answer."""

    def integer(self, low: int, high: int) -> int:
        return low


@examples(150)
@given(worlds())
def test_every_case_is_well_formed_and_has_a_lawful_plan(case: Case) -> None:
    check_case(case)
    covered(case)


@pytest.mark.parametrize("size", [TINY, SMALL, MEDIUM])
def test_every_case_of_each_size_is_in_scope(size: Size) -> None:
    for seed in range(300):
        case = generate(RandomSource(seed), size)
        check_case(case)
        covered(case)


def test_the_simplest_case_is_one_layer_of_one_byte_without_a_copy_to_spare() -> None:
    case = generate(Simplest())
    check_case(case)
    assert [len(worker.layers) for worker in case.worker] == [1, 1]
    assert len(derive(case).plan.copies) == 1


def test_the_same_seed_makes_the_same_case() -> None:
    assert [case_of(3, number) for number in range(20)] == [case_of(3, number) for number in range(20)]
    assert len({str(case_of(3, number)) for number in range(20)}) == 20


def test_every_feature_is_frequent() -> None:
    count = 1500
    seen = Counter(name for number in range(count) for name in features(covered(case_of(0, number))))
    rare = {name: seen[name] for name in FEATURES if seen[name] < count // 50}
    assert rare == {}, "each feature in at least 2 % of the cases"
    assert set(seen) <= set(FEATURES)


def test_tables_that_no_layer_uses_are_of_any_length() -> None:
    reach = Counter[bool]()
    for number in range(600):
        scope = covered(case_of(0, number))
        used = {view.group.name for view in scope.consumer.layers}
        for group in scope.consumer.worker.groups:
            if scope.tokens is not None and group.name not in used and group.kind in TOKEN_KINDS:
                table = scope.consumer.worker.tables[group.name]
                reach[(table.first + len(table.blocks)) * (group.block_tokens or 1) >= scope.tokens] += 1
    assert min(reach[False], reach[True]) >= 2


def test_most_inputs_are_not_the_easy_ones() -> None:
    cases = [covered(case_of(0, number)) for number in range(500)]
    requests = [one for one in cases if one.tokens is not None]
    tables = [
        table.blocks for one in requests for w in (one.producer, one.consumer) for table in w.worker.tables.values()
    ]
    several = [blocks for blocks in tables if len(blocks) > 1]
    # No identity tables.
    assert sum(blocks == tuple(range(blocks[0], blocks[0] + len(blocks))) for blocks in several) < len(several) // 4
    # Few worlds in which nothing is moved.
    assert sum(not required_spans(one) for one in requests) < len(requests) // 5


@examples(100)
@given(worlds_and_source())
def test_one_violated_condition_is_refused_or_not_covered(drawn: tuple[Case, Source]) -> None:
    case, source = drawn
    name, violated, expected = violate(source, case, covered(case))
    check_case(violated)
    judgement = judge(assess(violated))
    assert (name, judgement.verdict) == (name, expected)
    assert judgement.reason


def test_every_violation_and_every_mutation_occurs() -> None:
    violations, mutations = Counter[str](), Counter[str]()
    for number in range(400):
        case, source = case_of(1, number), RandomSource(number)
        scope = covered(case)
        violations[violate(source, case, scope)[0]] += 1
        if scope.tokens is not None:
            mutations[mutate(source, scope, derive(case).plan)[0]] += 1
    assert set(violations) == set(VIOLATIONS)
    assert set(mutations) == set(MUTATIONS)
