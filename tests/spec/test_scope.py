# SPDX-License-Identifier: Apache-2.0
"""Refused, not covered or covered: each reason, and which goes before which."""

from typing import Any

import pytest
from spec_worlds import GONE, built, changed, two_workers, worker

from kvproof.spec.decode import BadInput
from kvproof.spec.scope import Covered, NotCovered, Refused, assess
from kvproof.spec.validate import check_case
from kvproof.spec.vocabulary import Raw

P, D = "worker.0", "worker.1"


def scope(changes: dict[str, Any], tokens: int = 6) -> Any:
    """The scope of the two workers with these changes, which stay well-formed."""
    case = built(changed(two_workers(tokens), changes))
    check_case(case)
    return assess(case)


def refused(changes: dict[str, Any], tokens: int = 6) -> str:
    answer = scope(changes, tokens)
    assert isinstance(answer, Refused), answer
    return answer.reason


def not_covered(changes: dict[str, Any], tokens: int = 6) -> str:
    answer = scope(changes, tokens)
    assert isinstance(answer, NotCovered), answer
    return answer.reason


def covered(changes: dict[str, Any], tokens: int = 6) -> Covered:
    answer = scope(changes, tokens)
    assert isinstance(answer, Covered), answer
    return answer


def both(path: str, value: Any) -> dict[str, Any]:
    return {f"{P}.{path}": value, f"{D}.{path}": value}


KEYS = {f"{D}.layers.0.name": "x", f"{D}.layers.0.key": "a", f"{P}.layers.0.name": "y", f"{P}.layers.0.key": "a"}


def test_the_two_workers_are_covered() -> None:
    answer = covered({})
    assert [(pair.source.worker, pair.target.worker, pair.target.key) for pair in answer.pairs] == [
        ("P0", "D0", "a"),
        ("P0", "D0", "b"),
        ("P0", "D0", "s"),
    ]
    assert answer.tokens == 6


def test_layers_are_matched_by_key_in_the_consumer_s_order() -> None:
    swapped = {f"{D}.layers.{i}.{k}": v for i, name in enumerate("ba") for k, v in (("key", name),)}
    parts = {f"{D}.layers.0.parts": GONE, f"{D}.layers.1.parts": two_workers()["worker"][0]["layers"][0]["parts"]}
    answer = covered(swapped | parts)
    assert [(pair.source.layer.name, pair.target.layer.name) for pair in answer.pairs] == [
        ("b", "a"), ("a", "b"), ("s", "s"),
    ]  # fmt: skip
    assert [pair.target.layer.name for pair in covered(KEYS).pairs] == ["x", "b", "s"]


def test_a_producer_may_have_more_layers() -> None:
    extra = {"name": "z", "group": "ssm", "storage": "state", "offset": 40, "page_bytes": 1, "page_stride": 1}
    assert len(covered({f"{P}.layers.3": extra, f"{P}.storages.1.bytes": 50}).pairs) == 3


def test_without_a_request_no_table_is_looked_at() -> None:
    assert covered({"request": GONE, f"{P}.tables": GONE, f"{D}.tables": GONE}).tokens is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"worker": [worker("P0", "producer")]}, "0 consumer workers: one producer and one consumer are modelled"),
        ({"worker": [worker("D0", "consumer")]}, "0 producer workers: one producer and one consumer are modelled"),
        ({"worker.2": worker("P1", "producer")}, "2 producer workers: one producer and one consumer are modelled"),
        ({"worker.2": worker("D1", "consumer")}, "2 consumer workers: one producer and one consumer are modelled"),
        ({f"{P}.tp": [1, 2]}, "worker P0: tp of size 2: only size 1 is modelled"),
        ({f"{D}.pp": [0, 3]}, "worker D0: pp of size 3: only size 1 is modelled"),
        ({f"{D}.context": [0, 2]}, "worker D0: context of size 2: only size 1 is modelled"),
        ({f"{P}.storages.1.shared": "s"}, "worker P0, storage state: shared storages are not modelled"),
    ],
)
def test_topologies_not_covered(changes: dict[str, Any], reason: str) -> None:
    assert not_covered(changes) == reason


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({f"{P}.layers.0.name": "z"}, "layer a of D0 is absent on the producer P0"),
        ({f"{P}.layers.0.key": "z"}, "layer a of D0 is absent on the producer P0"),
        (
            {f"{P}.groups.0.kind": "sliding", f"{P}.groups.0.window_tokens": 9},
            "layer a: kinds differ: sliding on P0, attention on D0",
        ),
        ({f"{P}.groups.1.kind": "replicated-ssm"}, "layer s: kinds differ: replicated-ssm on P0, ssm on D0"),
        (
            {f"{P}.layers.0.parts.0.name": "k"},
            "layer a: parts differ: k (2 units of 2 bytes) on P0, heads (2 units of 2 bytes) on D0",
        ),
        (
            {f"{P}.layers.0.parts.0.units": 3},
            "layer a: parts differ: heads (3 units of 2 bytes) on P0, heads (2 units of 2 bytes) on D0",
        ),
        (
            {f"{P}.layers.0.parts.0.unit_bytes": 1},
            "layer a: parts differ: heads (2 units of 1 bytes) on P0, heads (2 units of 2 bytes) on D0",
        ),
        ({f"{P}.layers.0.parts": GONE}, "layer a: parts differ: opaque on P0, heads (2 units of 2 bytes) on D0"),
        ({f"{D}.layers.0.parts": GONE}, "layer a: parts differ: heads (2 units of 2 bytes) on P0, opaque on D0"),
        (
            {f"{P}.layers.0.parts.0.count": 1},
            "layer a, part heads: unit 1, which D0 needs, is held by nobody",
        ),
        (
            {f"{P}.layers.0.parts.0.count": 1, f"{P}.layers.0.parts.0.first": 1},
            "layer a, part heads: unit 0, which D0 needs, is held by nobody",
        ),
    ],
)
def test_pairs_without_a_lawful_plan_are_refused(changes: dict[str, Any], reason: str) -> None:
    assert refused(changes) == reason


@pytest.mark.parametrize(
    ("changes", "tokens", "reason"),
    [
        (
            {f"{P}.tables.kv.blocks": [1]}, 5,
            "worker P0, table kv (layer a): table too short: it lists tokens 0 to 4 (exclusive), "
            "tokens 0 to 5 are needed",
        ),
        (
            {f"{D}.tables.kv.blocks": [1]}, 5,
            "worker D0, table kv (layer a): table too short: it lists tokens 0 to 4 (exclusive), "
            "tokens 0 to 5 are needed",
        ),
        (
            {f"{P}.tables.kv.first": 1, f"{D}.tables.kv.cached_tokens": 2}, 8,
            "worker P0, table kv (layer a): table too short: it lists tokens 4 to 12 (exclusive), "
            "tokens 2 to 8 are needed",
        ),
        (
            {f"{D}.tables.kv.first": 1}, 8,
            "worker D0, table kv (layer a): table too short: it lists tokens 4 to 12 (exclusive), "
            "tokens 0 to 8 are needed",
        ),
        (
            {f"{P}.pools.0.null": 2}, 5,
            "worker P0, table kv (layer a): the null block stands at block ordinal 1, whose tokens are needed",
        ),
        (
            {f"{D}.pools.0.null": 1}, 5,
            "worker D0, table kv (layer a): the null block stands at block ordinal 0, whose tokens are needed",
        ),
        (
            {f"{P}.tables.ssm.blocks": []}, 5,
            "worker P0, table ssm (layer s): table too short: it lists no ssm block",
        ),
        (
            {f"{D}.tables.ssm.blocks": []}, 5,
            "worker D0, table ssm (layer s): table too short: it lists no ssm block",
        ),
    ],
)  # fmt: skip
def test_w13_tables_that_reach_too_short_are_refused(changes: dict[str, Any], tokens: int, reason: str) -> None:
    assert refused(changes, tokens) == reason


def test_w13_at_its_boundaries() -> None:
    covered({f"{P}.tables.kv.blocks": [1]}, tokens=4)
    covered({f"{P}.tables.kv": {"blocks": [1], "first": 1}, f"{D}.tables.kv.cached_tokens": 4}, tokens=8)
    covered({f"{P}.pools.0.null": 1, f"{D}.tables.kv.cached_tokens": 4}, tokens=8)
    covered({f"{D}.pools.0.null": 2}, tokens=4)


def test_w13_is_not_looked_at_where_nothing_is_needed() -> None:
    cached = {f"{D}.tables.kv.cached_tokens": 8, f"{D}.tables.ssm.cached_tokens": 8}
    covered(cached | {f"{P}.tables.kv.blocks": [], f"{P}.tables.ssm.blocks": []}, tokens=8)
    covered({f"{D}.tables.kv.cached_tokens": 6, f"{P}.pools.0.null": 2}, tokens=6)
    assert refused(cached | {f"{P}.tables.ssm.blocks": [], f"{D}.tables.ssm.cached_tokens": 7}, tokens=8)


def test_w13_goes_by_the_consumer_s_window() -> None:
    sliding = both("groups.0.kind", "sliding") | both("groups.0.window_tokens", 4)
    # Tokens 11 - 4 + 1 = 8 to 10 are needed: block ordinal 2.
    late = {f"{side}.tables.kv": {"blocks": [1], "first": 2} for side in (P, D)}
    covered(sliding | late, tokens=11)
    assert "tokens 7 to 11 are needed" in refused(sliding | late | {f"{D}.groups.0.retained_tokens": 1}, tokens=11)
    assert "tokens 7 to 11 are needed" in refused(sliding | late | {f"{D}.groups.0.window_tokens": 5}, tokens=11)
    covered(sliding | late | {f"{P}.groups.0.window_tokens": 9}, tokens=11)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {f"{P}.groups.0.pages_per_block": 1, f"{P}.groups.0.block_tokens": 1, f"{P}.tables.kv.blocks": [0, 1]},
            "layer a: page tokens differ: 1 on P0, 2 on D0",
        ),
        ({f"{P}.layers.1.page_bytes": 7}, "layer b: page_bytes differ: 7 on P0, 8 on D0"),
        ({f"{P}.layers.2.page_bytes": 7}, "layer s: page_bytes differ: 7 on P0, 8 on D0"),
        ({f"{P}.layers.0.tokens_per_state": 2}, "layer a: tokens_per_state differ: 2 on P0, 1 on D0"),
        (
            {f"{P}.layers.0.parts.0.order": "state-major"},
            "layer a, part heads: order differ: state-major on P0, unit-major on D0",
        ),
        ({f"{D}.layers.0.parts.0.count": 1}, "layer a, part heads: count differ: 2 on P0, 1 on D0"),
        (
            {f"{D}.layers.0.parts.0.count": 1, f"{D}.layers.0.parts.0.first": 1},
            "layer a, part heads: first differ: 0 on P0, 1 on D0",
        ),
    ],
)
def test_w16_differences_that_may_have_a_plan_are_not_covered(changes: dict[str, Any], reason: str) -> None:
    assert not_covered(changes, tokens=2) == reason


def test_w16_rings_of_unequal_capacity_are_not_covered() -> None:
    def ring(tokens: int) -> Raw:
        return {"name": "ssm", "kind": "ring", "pool": "device", "block_tokens": tokens}

    covered({f"{P}.groups.1": ring(3), f"{D}.groups.1": ring(3)})
    assert not_covered({f"{P}.groups.1": ring(3), f"{D}.groups.1": ring(4)}) == (
        "layer s: block_tokens differ: 3 on P0, 4 on D0"
    )


def test_blocks_of_unequal_pages_are_covered() -> None:
    covered({f"{P}.groups.0.pages_per_block": 1, f"{P}.groups.0.block_tokens": 2, f"{P}.tables.kv.blocks": [0, 1, 2]})


def test_w14_a_prefix_that_ends_inside_a_page_is_not_covered() -> None:
    covered({f"{D}.tables.kv.cached_tokens": 2})
    assert not_covered({f"{D}.tables.kv.cached_tokens": 3}) == (
        "worker D0, table kv (layer a): cached_tokens = 3 ends inside a page of 2 tokens"
    )
    covered({f"{D}.tables.ssm.cached_tokens": 3})


def test_what_goes_before_what() -> None:
    unequal = {f"{P}.layers.1.page_bytes": 7}
    short = {f"{D}.tables.kv.blocks": [1]}
    unlike = {f"{P}.groups.1.kind": "replicated-ssm"}
    topology = {f"{P}.tp": [0, 2]}
    ill = {f"{D}.tables.kv.blocks": [1, 1]}
    assert "page_bytes differ" in not_covered(unequal | {f"{D}.tables.kv.cached_tokens": 3})
    assert "too short" in refused(unequal | short)
    assert "kinds differ" in refused(unequal | short | unlike)
    assert "absent" in refused(unequal | short | unlike | {f"{P}.layers.2.name": "z"})
    assert "tp of size 2" in not_covered(unequal | short | unlike | topology)
    with pytest.raises(BadInput, match="W7"):
        scope(unequal | short | unlike | topology | ill)


def test_a_ragged_prefix_goes_after_a_short_table() -> None:
    assert "too short" in refused({f"{D}.tables.kv.cached_tokens": 3, f"{P}.tables.kv.blocks": [1]})
