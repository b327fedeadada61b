# SPDX-License-Identifier: Apache-2.0
"""The built-in cases: what the reference derives is what their authors worked out by hand, down to the bytes."""

from pathlib import Path

import pytest

from kvproof.reference.derive import Derived, derive
from kvproof.reference.faults import FAULTS
from kvproof.reference.rules import Refusal
from kvproof.reference.side import Side, side_of
from kvproof.reference.simulator import execute, patterned
from kvproof.spec.decode import decode_case
from kvproof.spec.vocabulary import Case, Layer

FOLDER = Path(__file__).parents[2] / "cases" / "regressions"


def cases() -> list[Case]:
    decoded = [decode_case(file.read_bytes()) for file in sorted(FOLDER.glob("*.toml"))]
    return [case for case in decoded if case.expect.verdict in ("lawful", "wasteful")]


each_case = pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)


def moved(derived: Derived, layer: Layer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The pages of both sides that move for a layer of the consumer."""
    [pairing] = [
        pairing
        for pairing in derived.tables.pairings
        if pairing.group == layer.group
        and any(member.layer == layer.name for member in derived.tables.target[pairing.target].members)
    ]
    return pairing.source_pages, pairing.target_pages


def page(side: Side, layer: Layer, memory: dict[str, bytearray], number: int) -> bytes:
    start = layer.offset + number * layer.page_stride
    return bytes(memory[side.storage_id(layer.storage)][start : start + layer.page_bytes])


def test_there_are_cases() -> None:
    assert len(cases()) > 20


@each_case
def test_regions_and_ids(case: Case) -> None:
    tables = derive(case).tables
    for worker, expected in case.expect.regions.items():
        found = tables.registered[worker]
        assert tuple((r.storage.split("/")[1], r.offset, r.bytes, r.stride, r.pages) for r in found) == expected
    for worker, ids in case.expect.ids.items():
        assert ids == (tables.source_ids if worker == case.workers("producer")[0].name else tables.target_ids)


@each_case
def test_pages_arrive_and_padding_ends_zero(case: Case) -> None:
    derived = derive(case)
    source, target = side_of(case, "producer"), side_of(case, "consumer")
    before, memory = patterned(case), patterned(case)
    execute(derived.plan, memory)
    for key, expected in case.expect.pages.items():
        twin, layer = source.layers_by_key[key], target.layers_by_key[key]
        if not layer.parts or target.group_of(layer).kind != "ssm":
            assert moved(derived, layer) == (expected[source.worker.name], expected[target.worker.name])
        for first, second in zip(expected[source.worker.name], expected[target.worker.name], strict=True):
            length = sum(part.count * part.unit_bytes for part in layer.parts)
            length = length if layer.parts and target.group_of(layer).kind == "ssm" else layer.page_bytes
            assert page(target, layer, memory, second)[:length] == page(source, twin, before, first)[:length]
    for key, zeroed in case.expect.zeroed.items():
        layer = target.layers_by_key[key]
        spans = {(zero.storage, zero.offset, zero.bytes) for zero in derived.plan.zeroes}
        for number in range(target.pages_of(layer)):
            start = layer.offset + number * layer.page_stride
            span = (target.storage_id(layer.storage), start, layer.page_bytes)
            assert (span in spans) == (number in zeroed[target.worker.name])


@each_case
def test_faults_refuse_where_they_did(case: Case) -> None:
    for name, outcome in case.expect.faults.items():
        try:
            derive(case, FAULTS[name].rules)
        except Refusal:
            assert outcome == "refused", name
        else:
            assert outcome != "refused", name
