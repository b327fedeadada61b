# SPDX-License-Identifier: Apache-2.0
"""Which views share a region, against numbers worked out by hand."""

from small_cases import (
    PAGE,
    ROW,
    aliased_groups,
    attention,
    layer,
    replicated_ssm,
    ring,
    ssm,
    worker,
)

from kvproof.reference.arithmetic import lies_in_row
from kvproof.reference.faults import FAULTS
from kvproof.reference.folding import register
from kvproof.reference.side import Side
from kvproof.spec.tables import Region
from kvproof.spec.vocabulary import Group, Layer, Part, Worker

Rows = list[tuple[str, int, int, int, int]]


def rows(regions: tuple[Region, ...]) -> Rows:
    """Storage, offset, bytes, stride, pages."""
    return [(r.storage.removeprefix("D0/"), r.offset, r.bytes, r.stride, r.pages) for r in regions]


def members(regions: tuple[Region, ...]) -> list[list[tuple[str, int]]]:
    return [[(m.layer, m.offset) for m in r.members] for r in regions]


def lawful(found: Worker) -> tuple[Region, ...]:
    return register(Side(found))


def faulty(name: str, found: Worker) -> tuple[Region, ...]:
    return FAULTS[name].rules.register(Side(found))


def packed(groups: list[Group], layers: list[Layer], storage_bytes: int = 2560) -> Worker:
    """Ten blocks, one storage ``s``."""
    return worker("consumer", {"s": storage_bytes}, groups, layers)


RING_OVER_PAGES = packed(
    [attention(), ring()],
    [layer("window", "kv", "s", 0, 128, 256), layer("ring", "ring", "s", 0, 256, 256)],
)
"""A page of 128 bytes and a ring page of 256 at the same base."""


def test_aliased_groups_are_one_row() -> None:
    regions = lawful(aliased_groups("consumer", 1, 2, 3))
    assert rows(regions) == [("kv", 0, ROW, ROW, 4)]
    halves = [(f"{group}.{number}", number * PAGE) for group in ("g0", "g1", "g2") for number in (0, 1)]
    assert members(regions) == [halves]


def test_aliased_groups_by_base() -> None:
    regions = faulty("fold-by-base", aliased_groups("consumer", 1, 2, 3))
    assert rows(regions) == [("kv", 0, PAGE, ROW, 4), ("kv", PAGE, PAGE, ROW, 4)]
    assert members(regions) == [[("g0.0", 0), ("g1.0", 0), ("g2.0", 0)], [("g0.1", 0), ("g1.1", 0), ("g2.1", 0)]]


def test_aliased_groups_by_row_and_base() -> None:
    regions = faulty("row-fold-by-base", aliased_groups("consumer", 1, 2, 3))
    assert rows(regions) == [("kv", 0, ROW, ROW, 4), ("kv", PAGE, PAGE, ROW, 4)]
    assert members(regions)[0] == [("g0.0", 0), ("g0.1", PAGE), ("g1.0", 0), ("g1.1", PAGE), ("g2.0", 0)]
    assert members(regions)[1] == [("g2.1", 0)]


def test_aliased_groups_by_row_base_and_length() -> None:
    regions = faulty("row-fold-by-base-and-length", aliased_groups("consumer", 1, 2, 3))
    assert rows(regions) == [("kv", 0, ROW, ROW, 4), ("kv", 0, PAGE, ROW, 4), ("kv", PAGE, PAGE, ROW, 4)]
    assert members(regions)[1:] == [[("g2.0", 0)], [("g2.1", 0)]]


def test_a_longer_ring_page_at_the_same_base() -> None:
    assert rows(lawful(RING_OVER_PAGES)) == [("s", 0, 256, 256, 10)]
    assert rows(faulty("fold-by-base", RING_OVER_PAGES)) == [("s", 0, 128, 256, 10)]
    assert rows(faulty("row-fold-by-base", RING_OVER_PAGES)) == [("s", 0, 256, 256, 10)]
    by_length = faulty("row-fold-by-base-and-length", RING_OVER_PAGES)
    assert (rows(by_length), members(by_length)) == ([("s", 0, 256, 256, 10)], [[("window", 0), ("ring", 0)]])


def test_a_later_attention_view_overwrites_the_region_of_its_base() -> None:
    found = packed(
        [ring(), attention()],
        [layer("ring", "ring", "s", 0, 256, 256), layer("window", "kv", "s", 0, 128, 256)],
    )
    assert rows(faulty("fold-by-base", found)) == [("s", 0, 128, 256, 10)]
    assert rows(lawful(found)) == [("s", 0, 256, 256, 10)]


def test_a_later_sharded_view_overwrites_nothing() -> None:
    half = Part("kv", 1, units=2, count=1)
    found = packed(
        [ring(), attention()],
        [layer("ring", "ring", "s", 0, 256, 256), layer("heads", "kv", "s", 0, 128, 256, half)],
    )
    assert rows(faulty("fold-by-base", found)) == [("s", 0, 256, 256, 10)]


def test_outside_a_block_outer_storage_only_exact_aliases_fold() -> None:
    # Sharded heads: the storage is block-outer, but its rows are not registered.
    half = Part("kv", 1, units=2, count=1)
    groups = [attention(), attention("kv2"), ring()]
    layers = [
        layer("a", "kv", "s", 0, 128, 256, half),
        layer("b", "kv2", "s", 0, 128, 256),
        layer("c", "ring", "s", 0, 256, 256),
        layer("d", "kv2", "s", 128, 128, 256),
    ]
    regions = lawful(packed(groups, layers))
    assert rows(regions) == [("s", 0, 128, 256, 10), ("s", 0, 256, 256, 10), ("s", 128, 128, 256, 10)]
    assert members(regions) == [[("a", 0), ("b", 0)], [("c", 0)], [("d", 0)]]
    # The row rules do register the row of the replicated ones: only the page of the sharded view stands alone.
    by_length = faulty("row-fold-by-base-and-length", packed(groups, layers))
    assert rows(by_length) == [("s", 0, 128, 256, 10), ("s", 0, 256, 256, 10)]
    assert members(by_length) == [[("a", 0)], [("b", 0), ("c", 0), ("d", 128)]]


def test_a_row_needs_two_different_views() -> None:
    alike = [layer("a", "kv", "s", 0, 64, 256), layer("b", "kv2", "s", 0, 64, 256)]
    groups = [attention(), attention("kv2")]
    assert rows(lawful(packed(groups, alike))) == [("s", 0, 64, 256, 10)]
    different = [alike[0], layer("b", "kv2", "s", 0, 65, 256)]
    assert rows(lawful(packed(groups, different))) == [("s", 0, 256, 256, 10)]


def test_a_storage_is_not_block_outer_if() -> None:
    def regions(second: Layer, groups: list[Group], size: int = 2560, pools: dict[str, int] | None = None) -> Rows:
        layers = [layer("a", "kv", "s", 0, 128, 256), second]
        return rows(lawful(worker("consumer", {"s": size}, groups, layers, None, pools)))

    two = [attention(), attention("kv2")]
    row: Rows = [("s", 0, 256, 256, 10)]
    assert regions(layer("b", "kv2", "s", 128, 128, 256), two) == row
    # Unequal strides, a view outside the row, too short a storage, another page count, another pool:
    assert len(regions(layer("b", "kv2", "s", 128, 128, 128), two)) == 2
    assert len(regions(layer("b", "kv2", "s", 129, 128, 256), two)) == 2
    assert len(regions(layer("b", "kv2", "s", 128, 64, 256), two, 2559)) == 2
    assert len(regions(layer("b", "kv2", "s", 128, 128, 256), [attention(), attention("kv2", 64, 2)])) == 2
    other = [attention(), attention("kv2", pool="other")]
    assert len(regions(layer("b", "kv2", "s", 128, 128, 256), other, pools={"device": 10, "other": 10})) == 2
    # A ssm view in it:
    assert len(regions(layer("b", "ssm", "s", 128, 128, 256), [attention(), ssm()])) == 2


def test_parts_of_a_ssm_layer_are_regions_and_sections_stay_apart() -> None:
    conv, state = Part("conv", 4, units=3, count=3), Part("state", 20)
    found = worker(
        "consumer",
        {"s": 640, "t": 640},
        [ssm(), replicated_ssm(), attention()],
        [
            layer("ple", "ple", "s", 0, 64, 64, Part("ple", 64)),
            layer("mamba.1", "ssm", "t", 0, 40, 64, conv, state),
            layer("mamba.0", "ssm", "s", 0, 40, 64, conv, state),
            layer("plain", "ssm", "s", 0, 12, 64),
            layer("attn", "kv", "s", 0, 64, 64),
        ],
    )
    regions = lawful(found)
    assert rows(regions) == [
        ("s", 0, 64, 64, 10),
        ("t", 0, 12, 64, 10),
        ("t", 12, 20, 64, 10),
        ("s", 0, 12, 64, 10),
        ("s", 12, 20, 64, 10),
        ("s", 0, 12, 64, 10),  # an exact alias of mamba.0's first part, which never folds
        ("s", 0, 64, 64, 10),
    ]
    assert [r.section for r in regions] == ["attention"] + ["ssm"] * 5 + ["replicated-ssm"]
    assert [m.part for r in regions for m in r.members] == [None, 0, 1, 0, 1, None, None]
    for name in FAULTS:
        assert rows(faulty(name, found))[1:] == rows(regions)[1:]


def test_regions_stand_in_the_order_of_their_first_members() -> None:
    found = worker(
        "consumer",
        {"s": 2560, "t": 640},
        [attention(), attention("kv2")],
        [
            layer("late", "kv", "t", 0, 64, 64),
            layer("row.1", "kv", "s", 128, 64, 256),
            layer("row.0", "kv2", "s", 0, 128, 256),
        ],
    )
    assert rows(lawful(found)) == [("t", 0, 64, 64, 10), ("s", 0, 256, 256, 10)]
    assert members(lawful(found))[1] == [("row.1", 128), ("row.0", 0)]


def test_views_of_another_stride_are_no_alias_even_of_a_single_page() -> None:
    found = worker(
        "consumer",
        {"s": 512},
        [attention(), attention("kv2")],
        [layer("a", "kv", "s", 0, 64, 128), layer("b", "kv2", "s", 0, 64, 256)],
        pools={"device": 1},
    )
    assert rows(lawful(found)) == [("s", 0, 64, 128, 1), ("s", 0, 64, 256, 1)]


def test_an_overwritten_region_has_the_later_views_stride_and_page_count() -> None:
    found = packed(
        [ring(), attention("kv", 64, 2)],
        [layer("ring", "ring", "s", 0, 200, 256), layer("attn", "kv", "s", 0, 100, 128)],
    )
    assert rows(lawful(found)) == [("s", 0, 200, 256, 10), ("s", 0, 100, 128, 20)]
    assert rows(faulty("fold-by-base", found)) == [("s", 0, 100, 128, 20)]
    assert rows(faulty("row-fold-by-base", found)) == [("s", 0, 100, 128, 20)]
    assert rows(faulty("row-fold-by-base-and-length", found)) == rows(lawful(found))


def test_a_view_before_its_row_does_not_lie_in_it() -> None:
    row = Region("s", 100, 100, 100, 10, "VRAM", "attention")
    inside = Region("s", 100, 100, 100, 10, "VRAM", "attention")
    before = Region("s", 90, 100, 100, 10, "VRAM", "attention")
    assert lies_in_row(inside, row)
    assert not lies_in_row(before, row)
