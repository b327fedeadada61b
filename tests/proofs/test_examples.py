# SPDX-License-Identifier: Apache-2.0
"""The examples that keep the proofs from being vacuous are geometries that kvproof judges, not made-up numbers."""

from pathlib import Path

import pytest

from kvproof.proofs import examples, worlds
from kvproof.proofs.on_reference import broken, transfer_case
from kvproof.proofs.source import Numbers
from kvproof.reference.rules import LAWFUL
from kvproof.spec.decode import decode_case
from kvproof.spec.vocabulary import Case, Worker

CASES = Path(__file__).parent.parent.parent / "cases" / "regressions"


def case(name: str) -> Case:
    return decode_case((CASES / f"{name}.toml").read_bytes())


def geometry(worker: Worker) -> dict[str, object]:
    """The first layer of a worker, in a world's words."""
    layer = worker.layers[0]
    group = next(group for group in worker.groups if group.name == layer.group)
    table = worker.tables[group.name]
    return {
        "offset": layer.offset,
        "stride": layer.page_stride,
        "pages_per_block": group.pages_per_block,
        "blocks": next(pool.blocks for pool in worker.pools if pool.name == group.pool),
        "first": table.first,
        "count": len(table.blocks),
        "block": {(table.first + index,): block for index, block in enumerate(table.blocks)},
    }


@pytest.mark.parametrize("role", ["producer", "consumer"])
def test_the_padded_tail_is_the_case_of_that_name(role: str) -> None:
    known, side = examples.PADDED_TAIL, {"producer": "source", "consumer": "target"}[role]
    [worker] = [worker for worker in case("hisparse-padded-tail").worker if worker.role == role]
    found = geometry(worker)
    assert found.pop("block") == known.functions[f"{side}.block"]
    assert found == {name: known.integers[f"{side}.{name}"] for name in found}
    assert worker.layers[0].page_bytes == known.integers["page_bytes"]


def test_the_padded_tail_has_the_tokens_of_the_case() -> None:
    request = case("hisparse-padded-tail").request
    assert request is not None
    assert request.tokens == examples.PADDED_TAIL.integers["tokens"]


@pytest.mark.parametrize("example", [examples.PADDED_TAIL, examples.REVERSE], ids=["padded-tail", "reverse"])
def test_the_reference_is_lawful_in_the_examples(example: Numbers) -> None:
    assert broken(transfer_case(worlds.transfer(example)), LAWFUL) == ()
