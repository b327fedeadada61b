# SPDX-License-Identifier: Apache-2.0
"""Tables, ids, plans and descriptor lists against numbers worked out by hand."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from small_cases import (
    PAGE,
    ROW,
    aliased_groups,
    attention,
    case,
    layer,
    padded_tail,
    replicated_ssm,
    reverse_geometry,
    ring,
    sliding,
    ssm,
    worker,
)
from transfers import bases

from kvproof.gpu_impl.folding import row_storages
from kvproof.gpu_impl.ids import zero_pages
from kvproof.gpu_impl.tables import as_tables, descriptor_file, plan
from kvproof.gpu_impl.views import OutOfScope, views
from kvproof.spec.decode import decode_case
from kvproof.spec.place import Place
from kvproof.spec.plan import Copy
from kvproof.spec.tables import Member, Region, Tables
from kvproof.spec.vocabulary import Case, Part, Role, Storage, Table, Worker

REGRESSIONS = Path(__file__).parents[2] / "cases" / "regressions"
HEADS = Part("kv", units=2, count=1, unit_bytes=1)


def rows(regions: tuple[Region, ...]) -> list[tuple[str, int, int, int, int]]:
    return [(each.storage, each.offset, each.bytes, each.stride, each.pages) for each in regions]


def links(tables: Tables) -> list[tuple[str, int, int]]:
    return [(each.group, each.source, each.target) for each in tables.pairings]


def test_padded_tail_pairs_pages_by_token_not_by_list_length() -> None:
    tables = as_tables(padded_tail())
    assert tables.source_ids == (20, 21, 22, 120, 121, 122)
    assert tables.target_ids == (30, 31, 32, 140, 141, 142)
    assert plan(padded_tail()).zeroes == ()
    assert plan(padded_tail()).copies[0] == Copy(Place("P0/main", 1280, 64), Place("D0/host", 1920, 64))
    assert plan(padded_tail()).copies[5] == Copy(
        Place("P0/index", 122 * 128 - 12800, 128), Place("D0/index", 5376, 128)
    )


def test_a_cached_page_is_skipped_on_both_sides() -> None:
    tables = as_tables(padded_tail(cached_on_host=64))
    assert tables.source_ids == (21, 22, 120, 121, 122)
    assert tables.target_ids == (31, 32, 140, 141, 142)


def test_the_page_past_the_prompt_is_zeroed_in_its_own_region_only() -> None:
    made = plan(reverse_geometry())
    assert made.zeroes == (Place("D0/host", 63 * 64, 64), Place("D0/index", 83 * 128, 128))
    assert [copy.target.offset // 64 for copy in made.copies if copy.target.storage == "D0/host"] == [60, 61, 62]


def test_nothing_moves_and_nothing_is_zeroed_when_all_is_cached() -> None:
    made = plan(reverse_geometry(cached_on_host=160))  # the index group still moves
    assert {copy.target.storage for copy in made.copies} == {"D0/index"}
    assert made.zeroes == (Place("D0/index", 83 * 128, 128),)


def test_descriptor_lists_are_split_by_memory_and_renumbered() -> None:
    file = descriptor_file(padded_tail(), {"P0": {"main": 1000, "index": 100000}, "D0": {"host": 5, "index": 70000}})
    to_host, to_device = file.transfers
    both = ((1000, 64, 0, 64, 100), (100000, 128, 0, 128, 100))
    assert (to_host.source.memory, to_host.target.memory) == ("VRAM", "DRAM")
    assert to_host.source.rows == to_device.source.rows == both
    assert to_host.source.sections == {"attention": (0, 200)}
    assert (to_host.target.rows, to_host.target.sections) == (((5, 64, 0, 64, 100),), {"attention": (0, 100)})
    assert (to_host.source_ids, to_host.target_ids) == ((20, 21, 22), (30, 31, 32))
    assert (to_device.target.memory, to_device.target.rows) == ("VRAM", ((70000, 128, 0, 128, 100),))
    assert (to_device.source_ids, to_device.target_ids) == ((120, 121, 122), (40, 41, 42))
    assert file.zeroes == ()


def test_zero_runs_are_strided() -> None:
    blocks = case(
        worker(
            "producer",
            {"kv": 400},
            [attention("kv", 1)],
            [layer("a", "kv", "kv", 0, 3, 10)],
            {"kv": [0]},
            {"device": 40},
        ),
        worker("consumer", {"kv": 400}, [attention("kv", 4, 4)], [layer("a", "kv", "kv", 5, 3, 10)], {"kv": [2]}),
        tokens=1,
    )
    [run] = descriptor_file(blocks, bases(blocks)).zeroes
    assert (run.target, run.bytes, run.count, run.target_stride) == (("D0", "kv", 95), 3, 3, 10)
    assert plan(blocks).zeroes == tuple(Place("D0/kv", offset, 3) for offset in (95, 105, 115))


def test_aliased_groups_register_the_packed_row_once() -> None:
    world = case(aliased_groups("producer", 0, 1, 2), aliased_groups("consumer", 3, 2, 1), tokens=256)
    tables = as_tables(world)
    assert rows(tables.registered["P0"]) == [("P0/kv", 0, ROW, ROW, 4)]
    assert [member.offset for member in tables.registered["P0"][0].members] == [0, PAGE] * 3
    assert links(tables) == [("g0", 0, 0), ("g1", 0, 0), ("g2", 0, 0)]
    assert (tables.source_ids, tables.target_ids) == ((0, 1, 2), (3, 2, 1))


def test_a_window_page_and_a_longer_ring_page_at_one_base_share_the_whole_row() -> None:
    def side(role: Role, window: int, loop: int) -> Worker:
        return worker(
            role,
            {"kv": 38016 * 3},
            [sliding("swa", 64, 128), ring()],
            [layer("w", "swa", "kv", 0, 19008, 38016), layer("r", "ring", "kv", 0, 32768, 38016)],
            {"swa": [window], "ring": [loop]},
            {"device": 3},
        )

    tables = as_tables(case(side("producer", 0, 1), side("consumer", 1, 2), tokens=64))
    assert rows(tables.target) == [("D0/kv", 0, 38016, 38016, 3)]
    assert (tables.source_ids, tables.target_ids) == ((0, 1), (1, 2))


def test_views_that_are_not_all_replicated_keep_their_own_pages() -> None:
    def side(role: Role) -> Worker:
        parts = (HEADS,)
        layers = [layer("a", "kv", "kv", 0, 64, 96, *parts), layer("b", "kv", "kv", 64, 32, 96)]
        return worker(role, {"kv": 960}, [attention()], layers, {"kv": [3]})

    tables = as_tables(case(side("producer"), side("consumer"), tokens=64))
    assert rows(tables.target) == [("D0/kv", 0, 64, 96, 10), ("D0/kv", 64, 32, 96, 10)]
    assert tables.target_ids == (3, 13)


def test_a_row_that_does_not_fit_its_storage_is_none() -> None:
    layers = [layer("a", "kv", "kv", 0, 32, 96), layer("b", "kv", "kv", 32, 32, 96)]
    sides = [worker(role, {"kv": 959}, [attention()], layers, {"kv": [3]}) for role in ("producer", "consumer")]
    assert rows(as_tables(case(*sides, tokens=64)).target) == [("D0/kv", 0, 32, 96, 10), ("D0/kv", 32, 32, 96, 10)]


def test_a_view_past_the_first_row_makes_a_storage_not_block_outer() -> None:
    layers = [layer("a", "kv", "kv", 0, 32, 96), layer("b", "kv", "kv", 65, 32, 96)]
    sides = [worker(role, {"kv": 1000}, [attention()], layers, {"kv": [3]}) for role in ("producer", "consumer")]
    assert rows(as_tables(case(*sides, tokens=64)).target) == [("D0/kv", 0, 32, 96, 10), ("D0/kv", 65, 32, 96, 10)]


@pytest.mark.parametrize("change", [{"pool": "other"}, {"pages_per_block": 2}])
def test_views_of_unlike_pools_or_page_counts_make_no_row(change: dict[str, object]) -> None:
    groups = [attention("a"), msgspec.structs.replace(attention("b", 128), **change)]
    layers = [layer("l.a", "a", "kv", 0, 32, 64), layer("l.b", "b", "kv", 32, 32, 64)]
    pools = {"device": 10, "other": 10}
    assert row_storages(views(worker("consumer", {"kv": 1280}, groups, layers, None, pools))).tolist() == [False]
    groups[1] = attention("b")
    assert row_storages(views(worker("consumer", {"kv": 1280}, groups, layers, None, pools))).tolist() == [True]


def test_views_of_unlike_strides_make_no_row() -> None:
    """Three small pages a block beside one larger page: the blocks line up, the rows do not."""
    groups = [attention("a"), attention("b", 192, 3)]
    layers = [layer("l.a", "a", "kv", 0, 16, 96), layer("l.b", "b", "kv", 16, 16, 32)]
    assert row_storages(views(worker("consumer", {"kv": 960}, groups, layers))).tolist() == [False]
    layers = [layer("l.a", "a", "kv", 0, 16, 64), layer("l.b", "a", "kv", 16, 16, 96)]
    assert row_storages(views(worker("consumer", {"kv": 960}, groups, layers))).tolist() == [False]


def layered(role: Role, *groups: str) -> Worker:
    """Each layer in its own storage; groups a, b, … of one layer each."""
    return worker(
        role,
        dict.fromkeys(groups, 480),
        [attention(name) for name in groups],
        [layer(f"l.{name}", name, name, 0, 48, 48) for name in groups],
        {name: [index + 1] for index, name in enumerate(groups)},
    )


def packed(role: Role) -> Worker:
    return worker(
        role,
        {"kv": 960},
        [attention("a"), attention("b")],
        [layer("l.a", "a", "kv", 0, 48, 96), layer("l.b", "b", "kv", 48, 48, 96)],
        {"a": [5], "b": [6]},
    )


def test_a_packed_row_is_split_when_the_other_side_is_layered() -> None:
    tables = as_tables(case(layered("producer", "a", "b"), packed("consumer"), tokens=64))
    assert rows(tables.registered["D0"]) == [("D0/kv", 0, 96, 96, 10)]
    assert rows(tables.target) == [("D0/kv", 0, 48, 96, 10), ("D0/kv", 48, 48, 96, 10)]
    assert tables.target[1].members == (Member("l.b", 0),)
    assert (tables.source_ids, tables.target_ids) == ((1, 12), (5, 16))
    mirrored = as_tables(case(packed("producer"), layered("consumer", "a", "b"), tokens=64))
    assert rows(mirrored.source) == [("P0/kv", 0, 48, 96, 10), ("P0/kv", 48, 48, 96, 10)]
    assert (mirrored.source_ids, mirrored.target_ids) == ((5, 16), (1, 12))


def test_a_row_stays_for_the_group_that_uses_it_whole() -> None:
    groups = [attention("a"), attention("b")]
    mine = {"a": [5], "b": [6]}
    target = worker(
        "consumer",
        {"pad": 320, "kv": 960},
        groups,
        [layer("z", "a", "pad", 0, 32, 32), layer("l.a", "a", "kv", 0, 48, 96), layer("l.b", "b", "kv", 48, 48, 96)],
        mine,
    )
    source = worker(  # l.b lies elsewhere; another layer makes P's storage of l.a a row of the same length
        "producer",
        {"pad": 320, "kv": 960, "b": 480},
        groups,
        [
            layer("z", "a", "pad", 0, 32, 32),
            layer("l.a", "a", "kv", 0, 48, 96),
            layer("other", "b", "kv", 50, 40, 96),
            layer("l.b", "b", "b", 0, 48, 48),
        ],
        mine,
    )
    tables = as_tables(case(source, target, tokens=64))
    assert rows(tables.target) == [("D0/pad", 0, 32, 32, 10), ("D0/kv", 0, 96, 96, 10), ("D0/kv", 48, 48, 96, 10)]
    assert [member.layer for member in tables.target[1].members] == ["l.a"]
    assert links(tables) == [("a", 0, 0), ("a", 1, 1), ("b", 2, 2)]
    assert tables.target_ids == (5, 15, 26)


def test_rows_whose_members_sit_elsewhere_are_split_on_both_sides() -> None:
    target = packed("consumer")
    source = worker(
        "producer",
        {"kv": 960},
        [attention("a"), attention("b")],
        [layer("l.a", "a", "kv", 48, 48, 96), layer("l.b", "b", "kv", 0, 48, 96)],
        {"a": [1], "b": [2]},
    )
    tables = as_tables(case(source, target, tokens=64))
    # Split views come in layer order, whatever their offsets.
    assert rows(tables.source) == [("P0/kv", 48, 48, 96, 10), ("P0/kv", 0, 48, 96, 10)]
    assert (tables.source_ids, tables.target_ids) == ((1, 12), (5, 16))


def test_a_row_that_needs_two_rows_of_the_other_side_is_split() -> None:
    """Each of P's rows has the right length, group and offset for one of the layers."""
    source = worker(
        "producer",
        {"s": 960, "t": 960},
        [attention("a")],
        [
            layer("x", "a", "s", 0, 48, 96),
            layer("other", "a", "s", 48, 48, 96),
            layer("another", "a", "t", 0, 48, 96),
            layer("y", "a", "t", 48, 48, 96),
        ],
        {"a": [1]},
    )
    target = worker(
        "consumer",
        {"kv": 960},
        [attention("a")],
        [layer("x", "a", "kv", 0, 48, 96), layer("y", "a", "kv", 48, 48, 96)],
        {"a": [5]},
    )
    tables = as_tables(case(source, target, tokens=64))
    assert rows(tables.source) == [("P0/s", 0, 48, 96, 10), ("P0/t", 48, 48, 96, 10)]
    assert (tables.source_ids, tables.target_ids) == ((1, 11), (5, 15))


@pytest.mark.parametrize("roles", [("producer", "consumer"), ("consumer", "producer")])
def test_a_page_that_is_its_whole_region_is_not_prepared_twice(roles: tuple[Role, Role]) -> None:
    """One side folds two exact aliases; the other packs one of them into a row, which is split."""
    groups, tables = [attention("a"), attention("b")], {"a": [5], "b": [0]}
    aliases = worker(
        roles[0],
        {"kv": 480, "c": 480},
        groups,
        [layer("x", "a", "kv", 0, 48, 48), layer("y", "b", "kv", 0, 48, 48), layer("z", "a", "c", 0, 48, 48)],
        tables,
    )
    packed_one = worker(
        roles[1],
        {"row": 960, "y": 480},
        groups,
        [layer("x", "a", "row", 0, 48, 96), layer("z", "a", "row", 48, 48, 96), layer("y", "b", "y", 0, 48, 48)],
        tables,
    )
    sides = {each.role: each for each in (aliases, packed_one)}
    made = as_tables(case(sides["producer"], sides["consumer"], tokens=64))
    folded, split = (made.source, made.target) if roles[0] == "producer" else (made.target, made.source)
    assert [
        (row[2], row[4], [m.layer for m in region.members]) for row, region in zip(rows(folded), folded, strict=True)
    ] == [
        (48, 10, ["x", "y"]),
        (48, 10, ["z"]),
    ]
    assert [region.members[0].layer for region in split] == ["x", "z", "y"]
    ids = (made.source_ids, made.target_ids) if roles[0] == "producer" else (made.target_ids, made.source_ids)
    assert set(zip(*ids, strict=True)) == {(5, 5), (15, 15), (0, 20)}


def test_the_first_page_of_a_later_region_is_that_regions() -> None:
    sides = [
        worker(
            role,
            {"s": 80, "t": 160},
            [attention()],
            [layer("x", "kv", "s", 0, 8, 8), layer("y", "kv", "t", 0, 16, 16)],
            {"kv": [0]},
        )
        for role in ("producer", "consumer")
    ]
    world = case(*sides, tokens=64)
    assert [copy.target for copy in plan(world).copies] == [Place("D0/s", 0, 8), Place("D0/t", 0, 16)]
    mixed = case(
        sides[0],
        msgspec.structs.replace(sides[1], storages=(Storage("s", 80, "DRAM"), sides[1].storages[1])),
        tokens=64,
    )
    assert [each.source_ids for each in descriptor_file(mixed, bases(mixed)).transfers] == [(0,), (10,)]
    assert [each.target_ids for each in descriptor_file(mixed, bases(mixed)).transfers] == [(0,), (0,)]


def test_exact_aliases_fold_within_their_section_only() -> None:
    groups = [attention("a"), replicated_ssm(), ssm(), attention("b")]
    names = {"a": "a", "p": "ple", "s": "ssm", "b": "b"}
    tables = {"a": [0], "ple": [1], "ssm": [2], "b": [3]}
    layers = [layer(name, group, "kv", 0, 48, 48) for name, group in names.items()]
    sides = [worker(role, {"kv": 480}, groups, layers, tables) for role in ("producer", "consumer")]
    made = as_tables(case(*sides, tokens=64))
    assert [(region.section, [member.layer for member in region.members]) for region in made.target] == [
        ("attention", ["a", "b"]),
        ("ssm", ["s"]),
        ("replicated-ssm", ["p"]),
    ]
    # By group in the consumer's order: a 0, ple 20 + 1, ssm 10 + 2, b 3.
    assert made.target_ids == (0, 21, 12, 3)
    lists = descriptor_file(case(*sides), bases(case(*sides))).transfers[0].target
    assert lists.sections == {"attention": (0, 10), "ssm": (10, 20), "replicated-ssm": (20, 30)}


def test_ssm_parts_have_a_row_each_and_never_fold() -> None:
    parts = (Part("conv", units=4, count=2, unit_bytes=6), Part("state", units=4, count=2, unit_bytes=8))
    layers = [layer("m", "ssm", "s", 4, 30, 40, *parts), layer("n", "more", "s", 4, 30, 40, *parts)]
    groups = [ssm(), ssm("more")]
    sides = [
        worker(
            role,
            {"s": 40 * pages},
            groups,
            layers,
            {"ssm": Table((1, 4), live=1), "more": Table((2,))},
            {"device": pages},
        )
        for role, pages in (("producer", 5), ("consumer", 6))
    ]
    tables = as_tables(case(*sides, tokens=64))
    assert rows(tables.target) == [("D0/s", 4, 12, 40, 6), ("D0/s", 16, 16, 40, 6)] * 2
    assert [region.members for region in tables.target] == [
        (Member("m", 0, 0),),
        (Member("m", 0, 1),),
        (Member("n", 0, 0),),
        (Member("n", 0, 1),),
    ]
    assert (tables.source_ids, tables.target_ids) == ((4, 9, 12, 17), (4, 10, 14, 20))


def test_each_side_numbers_its_sections_by_its_own_counts() -> None:
    def side(role: Role, pages: int) -> Worker:
        layers = [layer("a", "kv", "kv", 0, 8, 8), layer("m", "ssm", "s", 0, 8, 8)]
        storages = {"kv": 8 * pages, "s": 8 * pages}
        return worker(role, storages, [attention(), ssm()], layers, {"kv": [1], "ssm": [2]}, {"device": pages})

    tables = as_tables(case(side("producer", 7), side("consumer", 9), tokens=64))
    assert (tables.source_ids, tables.target_ids) == ((1, 9), (1, 11))


def test_a_window_moves_the_pages_that_hold_needed_tokens() -> None:
    def side(role: Role, first: int) -> Worker:
        blocks = Table(tuple(range(20, 30 - first)), first=first)
        return worker(
            role,
            {"kv": 240},
            [sliding("swa", 4, 9, 2)],
            [layer("a", "swa", "kv", 0, 8, 8)],
            {"swa": blocks},
            {"device": 30},
        )

    # 37 - 9 + 1 - 2 = 27: pages 6 to 9 of 4 tokens.
    tables = as_tables(case(side("producer", 0), side("consumer", 3), tokens=37))
    assert (tables.source_ids, tables.target_ids) == ((26, 27, 28, 29), (23, 24, 25, 26))


def test_layers_are_matched_by_key() -> None:
    source = worker("producer", {"kv": 80}, [attention()], [layer("x", "kv", "kv", 0, 8, 8, key="k")], {"kv": [1]})
    target = worker("consumer", {"kv": 80}, [attention()], [layer("y", "kv", "kv", 0, 8, 8, key="k")], {"kv": [2]})
    assert as_tables(case(source, target, tokens=64)).target_ids == (2,)
    stranger = worker("consumer", {"kv": 80}, [attention()], [layer("y", "kv", "kv", 0, 8, 8)], {"kv": [2]})
    with pytest.raises(OutOfScope, match="layer y"):
        as_tables(case(source, stranger, tokens=64))


def test_without_a_request_there_are_tables_but_no_ids() -> None:
    world = msgspec.structs.replace(padded_tail(), request=None)
    tables = as_tables(world)
    assert len(tables.source) == len(tables.target) == len(tables.pairings) == 2
    assert tables.source_ids == tables.target_ids == ()
    assert plan(world).copies == plan(world).zeroes == ()
    file = descriptor_file(world, bases(world))
    assert [transfer.source_ids for transfer in file.transfers] == [(), ()]


def test_large_tables_need_no_more_than_their_rows() -> None:
    """2^40 pages a layer: nothing is made page by page."""
    huge = worker(
        "producer", {"kv": 2**44}, [attention()], [layer("a", "kv", "kv", 0, 8, 8)], {"kv": [2**40]}, {"device": 2**41}
    )
    other = msgspec.structs.replace(huge, name="D0", role="consumer")
    assert as_tables(case(huge, other, tokens=64)).target_ids == (2**40,)


def test_tables_need_numpy_alone() -> None:
    check = "import sys, kvproof.gpu_impl.tables; sys.exit(bool({'torch', 'nixl'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-P", "-c", check], check=False).returncode == 0


def lawful_regressions() -> list[Case]:
    cases = [decode_case(file.read_bytes()) for file in sorted(REGRESSIONS.glob("*.toml"))]
    return [each for each in cases if each.expect.verdict in (None, "lawful", "wasteful")]


@pytest.mark.parametrize("world", lawful_regressions(), ids=lambda world: world.name)
def test_regression_cases_come_out_as_worked_out_by_hand(world: Case) -> None:
    tables = as_tables(world)
    [producer], [consumer] = world.workers("producer"), world.workers("consumer")
    for name, expected in world.expect.regions.items():
        found = [(row[0].split("/")[1], *row[1:]) for row in rows(tables.registered[name])]
        assert found == list(expected)
    ids = {producer.name: tables.source_ids, consumer.name: tables.target_ids}
    for name, numbers in world.expect.ids.items():
        assert ids[name] == numbers
    zeroed = {consumer.layers[index]: range(page, page + count) for index, page, count in zero_pages(world, consumer)}
    for key, sides in world.expect.zeroed.items():
        mine = next(each for each in consumer.layers if (each.key or each.name) == key)
        assert tuple(zeroed.get(mine, ())) == sides[consumer.name]
    for key, sides in world.expect.pages.items():
        mine = next(each for each in consumer.layers if (each.key or each.name) == key)
        moved = {
            (pairing.source_pages, pairing.target_pages)
            for pairing in tables.pairings
            if pairing.group == mine.group
            and mine.name in {member.layer for member in tables.target[pairing.target].members}
        }
        assert {(sides[producer.name], sides[consumer.name])} == moved
