# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator

import msgspec
import pytest

from kvproof.reference.derive import derive
from kvproof.reference.export import descriptor_file, synthetic_bases
from kvproof.reference.faults.registry import FAULTS
from kvproof.reference.rules import LAWFUL, Refusal, Rules
from kvproof.spec.judge.judge import judge_lists
from kvproof.spec.vocabulary import Case, Layer, Part, Table, Worker
from kvproof.upstream.fuzzing.generate import case_of
from kvproof.upstream.judging.lookalike import lookalike_of
from kvproof.upstream.judging.outcome import Outcome


def outcome(case: Case, rules: Rules, seen: Case | None = None, times: int = 1) -> Outcome:
    """What a target does that follows the rules, or would if the case were another; some do everything twice."""
    lists = descriptor_file(case, derive(seen or case, rules), synthetic_bases(case))
    lists = msgspec.structs.replace(lists, transfers=lists.transfers * times)
    judgement = judge_lists(case, lists)
    return Outcome(case.name, judgement.verdict, judgement.laws, judgement=judgement, lists=lists)


def corrupted(fault: str) -> Iterator[Case]:
    for number in range(150):
        case = case_of(3, number)
        try:
            if outcome(case, FAULTS[fault].rules).verdict == "corrupt":
                yield case
        except Refusal:
            continue


@pytest.mark.parametrize("fault", ["suffix-selection", "fold-by-base"])
def test_a_rule_looks_like_itself_also_with_waste(fault: str) -> None:
    cases = list(corrupted(fault))
    assert len(cases) > 3
    for case in cases:
        for times in (1, 2):
            assert lookalike_of(case, outcome(case, FAULTS[fault].rules, times=times)) == fault


def test_what_is_right_looks_like_no_fault() -> None:
    for number in range(20):
        case = case_of(3, number)
        found = outcome(case, LAWFUL)
        assert lookalike_of(case, found) is None
        # Not even if the verdict were another.
        assert lookalike_of(case, msgspec.structs.replace(found, verdict="corrupt")) is None


def test_an_error_of_its_own_looks_like_none() -> None:
    """The first block of every list is read for the last."""
    case = next(corrupted("suffix-selection"))
    found = outcome(case, LAWFUL)
    assert found.lists is not None
    transfers = tuple(
        msgspec.structs.replace(one, source_ids=(*one.source_ids[1:], one.source_ids[0]))
        for one in found.lists.transfers
    )
    judgement = judge_lists(case, msgspec.structs.replace(found.lists, transfers=transfers))
    changed = Outcome(
        case.name,
        judgement.verdict,
        judgement.laws,
        judgement=judgement,
        lists=msgspec.structs.replace(found.lists, transfers=transfers),
    )
    assert judgement.verdict == "corrupt"
    assert lookalike_of(case, changed) is None


def test_heads_keep_the_first_length() -> None:
    """Two groups of other head counts in rows. The connector calls no page with heads replicated, our rule does."""
    case = rows_of_heads()
    assert outcome(case, FAULTS["fold-by-base"].rules).verdict != "corrupt"
    sharded = msgspec.structs.replace(case, worker=tuple(with_a_head_more(worker) for worker in case.worker))
    found = outcome(case, FAULTS["fold-by-base"].rules, sharded)
    assert found.laws == ("coverage",)
    assert lookalike_of(case, found) == "fold-by-base"


def rows_of_heads() -> Case:
    def worker(name: str, role: str, blocks: tuple[int, int]) -> dict[str, object]:
        parts = [{"name": "kv", "unit_bytes": 4, "units": 2, "count": 2}]
        wide = [{"name": "kv", "unit_bytes": 4, "units": 4, "count": 4}]
        place = {"storage": "kv", "offset": 0, "page_stride": 64}
        return {
            "name": name,
            "role": role,
            "storages": [{"name": "kv", "bytes": 64 * 4, "memory": "VRAM"}],
            "pools": [{"name": "device", "blocks": 4, "null": 0}],
            "groups": [
                {"name": "full", "kind": "attention", "pool": "device", "block_tokens": 4},
                {"name": "near", "kind": "sliding", "pool": "device", "block_tokens": 4, "window_tokens": 8},
            ],
            "layers": [
                {"name": "layers.0", "group": "near", "page_bytes": 64, "parts": wide, **place},
                {"name": "layers.1", "group": "full", "page_bytes": 32, "parts": parts, **place},
            ][::-1],
            "tables": {"full": {"blocks": [blocks[0]]}, "near": {"blocks": [blocks[1]]}},
        }

    workers = [worker("P0", "producer", (1, 2)), worker("D0", "consumer", (3, 1))]
    return msgspec.convert({"format": 1, "name": "rows", "request": {"tokens": 4}, "worker": workers}, Case)


def with_a_head_more(worker: Worker) -> Worker:
    def changed(layer: Layer) -> Layer:
        parts: tuple[Part, ...] = tuple(msgspec.structs.replace(part, units=part.units + 1) for part in layer.parts)
        return msgspec.structs.replace(layer, parts=parts)

    return msgspec.structs.replace(worker, layers=tuple(changed(layer) for layer in worker.layers))


def test_the_null_block_in_front_of_a_window_is_shipped() -> None:
    """P lists null, 2, 1 and D, in longer blocks, 1, 2: as many pages, and all of them two too early."""
    case = window_pair(Table((2, 1), 2), Table((1, 2), 1))
    shipped = window_pair(Table((0, 2, 1), 1), Table((1, 2), 1))
    with pytest.raises(Refusal):
        derive(case, FAULTS["suffix-selection"].rules)
    found = outcome(case, FAULTS["suffix-selection"].rules, shipped)
    assert "alignment" in found.laws
    assert lookalike_of(case, found) == "suffix-selection"


def window_pair(theirs: Table, ours: Table) -> Case:
    def worker(name: str, role: str, pages: int, table: Table) -> dict[str, object]:
        group = {
            "name": "swa",
            "kind": "sliding",
            "pool": "device",
            "block_tokens": 4 * pages,
            "pages_per_block": pages,
            "window_tokens": 15,
        }
        layer = {"name": "layers.0", "group": "swa", "storage": "kv", "offset": 0, "page_bytes": 8, "page_stride": 8}
        return {
            "name": name,
            "role": role,
            "storages": [{"name": "kv", "bytes": 8 * 4 * pages, "memory": "VRAM"}],
            "pools": [{"name": "device", "blocks": 4, "null": 0}],
            "groups": [group],
            "layers": [layer],
            "tables": {"swa": msgspec.to_builtins(table)},
        }

    workers = [worker("P0", "producer", 2, theirs), worker("D0", "consumer", 3, ours)]
    return msgspec.convert({"format": 1, "name": "window", "request": {"tokens": 32}, "worker": workers}, Case)
