# SPDX-License-Identifier: Apache-2.0
"""One plan carried out three ways: the same memory, and in it what the laws promise."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from random_worlds import covered, examples, worlds

from kvproof.fuzzing.model import SMALL
from kvproof.fuzzing.run import case_of
from kvproof.fuzzing.tags import memory_faults
from kvproof.gpu_impl.execute import execute_on_bytes
from kvproof.reference.derive import derive
from kvproof.reference.export import plan_file
from kvproof.reference.faults import FAULTS
from kvproof.reference.rules import Refusal
from kvproof.reference.simulator import execute, patterned
from kvproof.spec.cells import Cell, holds, locate, page_of, page_place, state_required
from kvproof.spec.plan import Plan
from kvproof.spec.vocabulary import Case
from kvproof.spec.world import first_token_of


def carry_out(plan: Any, memory: dict[str, bytearray]) -> None:
    """The plan file as JSON, carried out by nothing but its own numbers."""
    reads = []
    for run in plan.get("copies", ()):
        for i in range(run.get("count", 1)):
            worker, storage, offset = run["source"]
            start = offset + i * run.get("source_stride", 0)
            piece = bytes(memory[f"{worker}/{storage}"][start : start + run["bytes"]])
            worker, storage, offset = run["target"]
            reads.append((f"{worker}/{storage}", offset + i * run.get("target_stride", 0), piece))
    for run in plan.get("zeroes", ()):
        for i in range(run.get("count", 1)):
            worker, storage, offset = run["target"]
            reads.append((f"{worker}/{storage}", offset + i * run.get("target_stride", 0), bytes(run["bytes"])))
    for name, start, piece in reads:
        assert start + len(piece) <= len(memory[name])
        memory[name][start : start + len(piece)] = piece


def by_script(case: Case, plan: Plan) -> dict[str, bytearray]:
    memory = {name: bytearray(content) for name, content in patterned(case).items()}
    carry_out(json.loads(msgspec.json.encode(plan_file(case, plan))), memory)
    return memory


def by_simulator(case: Case, plan: Plan) -> dict[str, bytearray]:
    memory = patterned(case)
    execute(plan, memory)
    return memory


def on_tensors(case: Case, plan: Plan) -> dict[str, bytearray]:
    pytest.importorskip("torch")
    return execute_on_bytes(plan, patterned(case))


@examples(120)
@given(worlds(SMALL))
def test_three_ways_to_carry_out_a_plan_agree(case: Case) -> None:
    plan = derive(case).plan
    expected = by_script(case, plan)
    assert by_simulator(case, plan) == expected
    assert on_tensors(case, plan) == expected


@pytest.mark.parametrize("fault", FAULTS)
def test_they_agree_on_faulty_plans(fault: str) -> None:
    seen = 0
    for number in range(40):
        case = case_of(9, number)
        try:
            plan = derive(case, FAULTS[fault].rules).plan
        except Refusal:
            continue
        expected = by_script(case, plan)
        assert by_simulator(case, plan) == expected
        assert on_tensors(case, plan) == expected
        seen += 1
    assert seen > 10


@examples(120)
@given(worlds(SMALL))
def test_after_a_lawful_plan_every_cell_is_the_producers(case: Case) -> None:
    scope = covered(case)
    assume(scope.tokens is not None)
    plan = derive(case).plan
    before, after = patterned(case), by_simulator(case, plan)
    for pair in scope.pairs:
        if not pair.target.by_token or pair.target.opaque:
            continue
        first = first_token_of(pair.target, scope.tokens or 0)
        for state in range((scope.tokens or 0) // pair.target.page.tokens_per_state + 1):
            for index, part in enumerate(pair.target.parts):
                for unit in range(part.first, part.first + part.count):
                    cell = Cell(unit, state)
                    if state_required(pair.target.page, state, first, scope.tokens):
                        assert holds(pair.target.page, part, pair.target.block_table, cell)
                        here = locate(pair.target.page, part, pair.target.block_table, cell)
                        there = locate(pair.source.page, pair.source.parts[index], pair.source.block_table, cell)
                        moved = after[here.storage][here.offset : here.offset + here.bytes]
                        assert moved == before[there.storage][there.offset : there.offset + there.bytes]


@examples(120)
@given(worlds(SMALL))
def test_after_a_lawful_plan_pages_past_the_prompt_are_zero(case: Case) -> None:
    """Not by the kernels: the pages behind the last token in its block, counted by hand."""
    scope = covered(case)
    assume(scope.tokens is not None)
    tokens, after = scope.tokens or 0, by_simulator(case, derive(case).plan)
    for view in scope.consumer.layers:
        if not view.by_token or first_token_of(view, tokens) >= tokens:
            continue
        page = view.page
        ordinal = -(-tokens // page.page_tokens)
        while ordinal % page.pages_per_block:
            place = page_place(page, page_of(page, view.block_table, ordinal))
            assert not any(after[place.storage][place.offset : place.offset + place.bytes])
            ordinal += 1


@examples(120)
@given(worlds(SMALL))
def test_after_a_lawful_plan_no_other_byte_has_changed(case: Case) -> None:
    scope = covered(case)
    assume(scope.tokens is not None)
    plan = derive(case).plan
    assert list(memory_faults(scope, plan)) == []
    before, after = patterned(case), by_simulator(case, plan)
    producer = {f"{scope.producer.name}/{storage.name}" for storage in scope.producer.worker.storages}
    assert all(before[name] == after[name] for name in producer)
