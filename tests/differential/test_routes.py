# SPDX-License-Identifier: Apache-2.0
"""Reference, gpu_impl and judge on random worlds: the judge accepts what both of the others build, alike."""

import pytest
from hypothesis import given
from random_worlds import covered, examples, worlds

from kvproof.fuzzing.differ import CHECKS, compare
from kvproof.fuzzing.model import SMALL, TINY
from kvproof.fuzzing.run import case_of
from kvproof.gpu_impl.tables import as_tables, plan
from kvproof.reference.derive import derive
from kvproof.spec.judge.judge import judge
from kvproof.spec.vocabulary import Case


@examples(200)
@given(worlds(SMALL))
def test_the_reference_is_judged_lawful(case: Case) -> None:
    derived = derive(case)
    judgement = judge(covered(case), derived.plan, derived.tables)
    assert judgement.findings == ()
    assert judgement.verdict == "lawful"
    assert all(moved == useful for moved, useful in judgement.ratios.values())


@examples(200)
@given(worlds(SMALL))
def test_gpu_impl_builds_the_same_tables_and_plan(case: Case) -> None:
    derived, tables = derive(case), as_tables(case)
    assert tables.registered == derived.tables.registered
    assert tables.source == derived.tables.source
    assert tables.target == derived.tables.target
    assert tables.pairings == derived.tables.pairings
    assert tables.source_ids == derived.tables.source_ids
    assert tables.target_ids == derived.tables.target_ids
    assert plan(case) == derived.plan


@examples(100)
@given(worlds(TINY))
def test_files_and_descriptor_lists_say_the_same(case: Case) -> None:
    assert compare(case, covered(case), ("files", "lists")) is None


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(10))
def test_sweep(seed: int) -> None:
    for number in range(1000):
        case = case_of(1000 + seed, number)
        assert (number, compare(case, covered(case), tuple(CHECKS))) == (number, None)
