# SPDX-License-Identifier: Apache-2.0
"""What each faulty rule does differently, on the geometries that made it known."""

import pytest
from small_cases import (
    aliased_groups,
    attention,
    case,
    hisparse,
    layer,
    padded_tail,
    reverse_geometry,
    ring,
    sliding,
    ssm,
    worker,
)

from kvproof.reference.derive import Derived, derive
from kvproof.reference.faults import FAULTS
from kvproof.reference.pairing import Registered
from kvproof.reference.rules import LAWFUL, Refusal
from kvproof.reference.side import side_of
from kvproof.reference.simulator import execute, patterned
from kvproof.spec.vocabulary import Case, Pool, Role, Table, Worker

FOLDS = ["fold-by-base", "row-fold-by-base", "row-fold-by-base-and-length"]


def under(fault: str, found: Case) -> Derived:
    return derive(found, FAULTS[fault].rules)


def test_every_fault_is_registered_under_its_name() -> None:
    assert list(FAULTS) == ["suffix-selection", *FOLDS]
    assert all(fault.name == name and fault.sources and fault.title for name, fault in FAULTS.items())
    assert all(fault.rules != LAWFUL for fault in FAULTS.values())


def test_suffix_selection_is_a_page_off() -> None:
    tables = under("suffix-selection", padded_tail()).tables
    assert tables.source_ids == (21, 22, 23, 121, 122, 123)
    assert tables.target_ids == (30, 31, 32, 140, 141, 142)


def test_suffix_selection_behind_a_cached_page() -> None:
    tables = under("suffix-selection", padded_tail(cached_on_host=64)).tables
    assert tables.source_ids[:2] == (22, 23)
    assert tables.target_ids[:2] == (31, 32)


def test_suffix_selection_refuses_where_the_producer_lists_too_few() -> None:
    with pytest.raises(Refusal, match="lists 4 uncached pages on 'D0', 'P0' only 3"):
        under("suffix-selection", reverse_geometry())


def test_suffix_selection_moves_padding_and_zeroes_nothing() -> None:
    found = hisparse(2, [10, 11], 2, Table((30, 31)), Table((40, 41)))
    derived = under("suffix-selection", found)
    assert derived.tables.source_ids == (20, 21, 22, 23, 120, 121, 122, 123)
    assert derived.tables.target_ids == (60, 61, 62, 63, 180, 181, 182, 183)
    assert derived.plan.zeroes == ()


def test_suffix_selection_with_nothing_to_fill_reads_nothing() -> None:
    found = hisparse(2, [10], 2, Table((30,), cached_tokens=128), Table((40,), cached_tokens=128), tokens=128)
    assert under("suffix-selection", found).plan.copies == ()


def test_suffix_selection_skips_the_consumers_null_blocks_only() -> None:
    def side(role: Role, blocks: list[int]) -> Worker:
        made = worker(
            role,
            {"s": 100},
            [sliding("swa", 8, 9)],
            [layer("x", "swa", "s", 0, 10, 10)],
            {"swa": blocks},
        )
        return Worker(
            made.name,
            made.role,
            made.storages,
            (Pool("device", 10, null=0),),
            made.groups,
            made.layers,
            made.tables,
        )

    # 30 tokens need pages 2 and 3; D lists pages for 1 to 3, P for 2 and 3 behind two null ones.
    [pairing] = under(
        "suffix-selection", case(side("producer", [0, 0, 7, 8]), side("consumer", [0, 1, 2, 3]), 30)
    ).tables.pairings
    assert (pairing.source_pages, pairing.target_pages) == ((0, 7, 8), (1, 2, 3))


def test_fold_faults_leave_selection_as_it_is() -> None:
    for name in FOLDS:
        assert under(name, padded_tail()) == derive(padded_tail())
        assert under(name, reverse_geometry()) == derive(reverse_geometry())


def ring_over_window(role: Role, window: int, ring_block: int) -> Worker:
    """A window page of 128 bytes under a ring page of 256, beside another layer's page that keeps it no whole row."""
    return worker(
        role,
        {"s": 5120},
        [attention("kv", 64), ring()],
        [layer("window", "kv", "s", 0, 128, 512), layer("ring", "ring", "s", 0, 256, 512)],
        {"kv": [window], "ring": [ring_block]},
    )


def test_fold_by_base_truncates_the_longer_page() -> None:
    found = case(ring_over_window("producer", 1, 2), ring_over_window("consumer", 3, 4), 64)
    derived = under("fold-by-base", found)
    assert [(copy.target.offset, copy.target.bytes) for copy in derived.plan.copies] == [(3 * 512, 128), (4 * 512, 128)]
    before, memory = patterned(found), patterned(found)
    execute(derived.plan, memory)
    arrived, sent, stale = (m[4 * 512 :] for m in (memory["D0/s"], before["P0/s"][-2 * 512 :], before["D0/s"]))
    assert arrived[:128] == before["P0/s"][2 * 512 : 2 * 512 + 128] != sent[:128]
    assert arrived[128:256] == stale[128:256]
    execute(derive(found).plan, memory)
    assert memory["D0/s"][4 * 512 : 4 * 512 + 256] == before["P0/s"][2 * 512 : 2 * 512 + 256]


def test_a_shared_region_is_addressed_by_every_group() -> None:
    groups = [attention("g", 64), attention("h", 64), attention("alone", 64)]
    layers = [
        layer("g.0", "g", "s", 0, 16, 16),
        layer("h.0", "h", "s", 0, 16, 16),
        layer("alone.0", "alone", "t", 0, 16, 16),
    ]
    storages = {"s": 160, "t": 160}
    producer = worker("producer", storages, groups, layers, {"g": [1], "h": [2], "alone": [3]})
    consumer = worker("consumer", storages, groups, layers, {"g": [4], "h": [5], "alone": [6]})
    found = case(producer, consumer, 64)
    assert derive(found).tables.target_ids == (4, 5, 16)
    for name in FOLDS:
        assert under(name, found).tables.target_ids == (4, 5, 6, 16)
        assert under(name, found).tables.source_ids == (1, 2, 3, 13)


def test_an_id_past_the_table_moves_nothing() -> None:
    # The group of the larger pool addresses the region that two groups of the smaller one share.
    groups = [attention("g", 64), attention("h", 64), attention("big", 64, pool="big")]
    layers = [
        layer("big.0", "big", "t", 0, 16, 16),
        layer("g.0", "g", "s", 0, 16, 16),
        layer("h.0", "h", "s", 0, 16, 16),
    ]

    def side(role: Role) -> Worker:
        return worker(
            role,
            {"s": 160, "t": 1600},
            groups,
            layers,
            {"g": [1], "h": [2], "big": [50]},
            {"device": 10, "big": 100},
        )

    derived = under("fold-by-base", case(side("producer"), side("consumer"), 64))
    assert derived.tables.target_ids == (101, 102, 50, 150)
    assert [copy.target.offset for copy in derived.plan.copies] == [16, 32, 800]


def test_unequal_rows_are_refused_by_the_row_rules_and_split_by_the_lawful_one() -> None:
    layered = worker(
        "producer",
        {"a": 320, "b": 640},
        [attention("g", 16)],
        [layer("g.0", "g", "a", 0, 32, 32), layer("g.1", "g", "b", 0, 64, 64)],
        {"g": [3]},
    )
    packed = worker(
        "consumer",
        {"u": 960},
        [attention("g", 16)],
        [layer("g.0", "g", "u", 0, 32, 96), layer("g.1", "g", "u", 32, 64, 96)],
        {"g": [5]},
    )
    found = case(layered, packed, 16)
    for name in ("row-fold-by-base", "row-fold-by-base-and-length"):
        with pytest.raises(Refusal, match=r"'g\.0' has 32 bytes on 'P0', 96 on 'D0'"):
            under(name, found)
    assert under("fold-by-base", found).plan == derive(found).plan


def test_bytes_moved_for_the_ring_of_aliased_groups() -> None:
    found = case(aliased_groups("producer", 1, 3, 2), aliased_groups("consumer", 2, 1, 3), 200)
    row, third = 135168, slice(3 * 135168, 4 * 135168)

    def ring_bytes(derived: Derived) -> int:
        return sum(copy.target.bytes for copy in derived.plan.copies if copy.target.offset >= third.start)

    assert ring_bytes(derive(found)) == row
    assert ring_bytes(under("fold-by-base", found)) == row
    assert ring_bytes(under("row-fold-by-base", found)) == row * 3 // 2
    assert ring_bytes(under("row-fold-by-base-and-length", found)) == row * 2


def test_regions_shared_by_ssm_groups_stay_theirs() -> None:
    groups = [attention("kv", 64), ssm("m"), ssm("n")]
    layers = [
        layer("kv.0", "kv", "a", 0, 16, 16),
        layer("m.0", "m", "s", 0, 16, 16),
        layer("n.0", "n", "s", 0, 16, 16),
    ]
    storages = {"a": 160, "s": 160}
    producer = worker("producer", storages, groups, layers, {"kv": [1], "m": [2], "n": [3]})
    consumer = worker("consumer", storages, groups, layers, {"kv": [4], "m": [5], "n": [6]})
    found = case(producer, consumer, 64)
    assert derive(found).tables.target_ids == (4, 15, 16)
    for name in FOLDS:
        assert under(name, found) == derive(found)
        rules = FAULTS[name].rules
        table = Registered(side_of(found, "consumer"), rules.register(side_of(found, "consumer")))
        assert [rules.address(table, group) for group in groups] == [(0,), (1,), (1,)]
