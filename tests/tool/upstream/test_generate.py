# SPDX-License-Identifier: Apache-2.0
from collections import Counter
from math import lcm

import pytest

from kvproof.fuzzing.features import features
from kvproof.fuzzing.write import write_case
from kvproof.spec.scope import Covered, assess
from kvproof.spec.validate import load_case, problems
from kvproof.spec.vocabulary import TOKEN_KINDS, Case, Group, Worker
from kvproof.upstream.fuzzing.generate import case_of
from kvproof.upstream.fuzzing.models import STYLES

COUNT = 400
CASES = [case_of(7, number) for number in range(COUNT)]

WANTED = (
    "attention", "sliding", "ring", "replicated-ssm", "opaque ssm", "ssm with parts", "opaque attention",
    "attention with parts", "several units", "compressed", "incomplete last state", "several storages", "several pools",
    "both memory kinds", "pages per block", "unequal pages per block", "unequal groups: more on consumer",
    "packed rows", "padded pages", "exact alias", "alias of unequal length", "ssm over attention", "ring over window",
    "alias in a row", "alias in layers", "null block listed", "table starts late", "cached prefix", "full hit",
    "unequal cached", "window starts inside a block", "page owed", "prompt off the block", "prompt on the block",
    "unequal pools", "several slots",
)  # fmt: skip


def test_every_case_is_well_formed_and_has_a_lawful_plan() -> None:
    for case in CASES:
        assert list(problems(case)) == []
        assert isinstance(assess(case), Covered)
        assert load_case(write_case(case).encode()) == case


def test_the_cases_exercise_what_faults_hide_in() -> None:
    seen: Counter[str] = Counter()
    for case in [*CASES, *(case_of(8, number) for number in range(COUNT))]:
        scope = assess(case)
        assert isinstance(scope, Covered)
        seen.update(features(scope))
    assert [name for name in WANTED if not seen[name]] == []


def test_all_styles_are_drawn_and_the_same_number_gives_the_same_case() -> None:
    drawn = {case.title.removeprefix("drawn: ") for case in CASES}
    assert drawn == {style.__name__ for style, _ in STYLES}
    assert case_of(7, 11) == CASES[11]
    assert case_of(8, 11) != CASES[11]


def test_block_zero_is_nobodys() -> None:
    for case in CASES:
        for worker in case.worker:
            assert all(pool.null == 0 for pool in worker.pools)


@pytest.mark.parametrize("case", CASES[::10], ids=lambda case: str(case.name))
def test_tables_are_those_of_a_scheduler(case: Case) -> None:
    assert case.request is not None
    tokens = case.request.tokens
    for worker in case.worker:
        for group in worker.groups:
            table = worker.tables[group.name]
            if group.kind in TOKEN_KINDS:
                assert group.block_tokens is not None
                assert table.first + len(table.blocks) == -(-tokens // group.block_tokens)
                # Null blocks stand in front, and only a window leaves some.
                held = [block for block in table.blocks if block]
                assert table.blocks[len(table.blocks) - len(held) :] == tuple(held)
                assert len(held) == len(table.blocks) or group.kind == "sliding"
            else:
                assert table.blocks[-1]


def test_prefixes_are_whole_blocks_of_all_groups() -> None:
    for case in CASES:
        consumer = case.workers("consumer")[0]
        unit = lcm(*(group.block_tokens or 1 for group in consumer.groups if group.kind in TOKEN_KINDS))
        for table in consumer.tables.values():
            assert (table.cached_tokens or 0) % unit == 0
        assert all(table.cached_tokens is None for table in case.workers("producer")[0].tables.values())


def test_most_prompts_end_inside_a_block() -> None:
    off = sum(any(_off(case, group) for group in worker.groups) for case in CASES for worker in case.worker)
    assert off > len(CASES)


def test_rows_hold_whole_blocks() -> None:
    """No kernel block is smaller than a block of the manager where blocks are rows: vLLM cannot split those."""
    for case in CASES:
        for worker in case.worker:
            if _in_rows(worker):
                assert all(group.pages_per_block == 1 for group in worker.groups)


def _off(case: Case, group: Group) -> bool:
    assert case.request is not None
    return group.kind in TOKEN_KINDS and case.request.tokens % (group.block_tokens or 1) > 0


def _in_rows(worker: Worker) -> bool:
    """Two layers of one group lie in the same stretch of a storage."""
    pairs = [
        (one, two) for one in worker.layers for two in worker.layers if one.group == two.group and one.name < two.name
    ]
    return any(
        one.storage == two.storage and abs(one.offset - two.offset) < max(one.page_stride, two.page_stride)
        for one, two in pairs
    )
