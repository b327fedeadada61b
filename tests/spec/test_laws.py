# SPDX-License-Identifier: Apache-2.0
"""Each kernel where it is true and at the nearest place where it is false: an emptied or negated kernel fails here."""

import pytest
from msgspec.structs import replace

from kvproof.spec import place
from kvproof.spec import wellformed as wf
from kvproof.spec.cells import BlockTable, PageView, PartView
from kvproof.spec.laws.alignment import aligned, untouched
from kvproof.spec.laws.bounds import address_fits, id_in_pool, span_in_storage
from kvproof.spec.laws.confinement import byte_confined, page_extent, row_extent, row_place
from kvproof.spec.laws.coverage import byte_covered
from kvproof.spec.laws.descriptor_ids import distinct, id_in_range, sections_apart
from kvproof.spec.laws.economy import byte_useful, not_contained, not_moved_twice
from kvproof.spec.laws.folding import equal_length, fits, no_stowaway, page_inside
from kvproof.spec.laws.parity import counts_pair, descriptors_pair
from kvproof.spec.laws.partition import unit_held
from kvproof.spec.laws.single_writer import not_also_zeroed, same_value
from kvproof.spec.laws.zeroing import byte_zeroed, page_owed, zero_spares
from kvproof.spec.place import Place
from kvproof.spec.plan import Copy
from kvproof.spec.tables import Region, descriptor
from kvproof.spec.world import NOWHERE

VIEW = PageView("D", 4, 8, 16, pages=10, pages_per_block=2, states_per_page=2, tokens_per_state=2)
REGION = Region("D", 4, 8, 16, 10, "VRAM", "attention")


def copy(source: int, target: int, size: int, producer: str = "P", consumer: str = "D") -> Copy:
    return Copy(Place(producer, source, size), Place(consumer, target, size))


def table(*blocks: int, first: int = 0, cached: int = 0, null: int | None = None) -> BlockTable:
    def block(ordinal: int) -> int:
        return blocks[ordinal - first] if first <= ordinal < first + len(blocks) else NOWHERE

    return BlockTable(block, first, len(blocks), cached, null)


def test_l1_byte_covered() -> None:
    cell = Place("D", 100, 10)
    # The copy writes 104 to 107: bytes 4 to 7 of the cell.
    assert [i for i in range(10) if byte_covered(copy(0, 104, 4), cell, i)] == [4, 5, 6, 7]
    assert not any(byte_covered(copy(0, 104, 4, consumer="E"), cell, i) for i in range(10))


def test_l2_aligned() -> None:
    source, target = Place("P", 50, 10), Place("D", 100, 10)
    assert aligned(copy(50, 100, 10), source, target)
    assert aligned(copy(54, 104, 2), source, target)
    assert aligned(copy(40, 90, 30), source, target)
    assert not aligned(copy(51, 100, 10), source, target)
    assert not aligned(copy(50, 101, 1), source, target)
    assert not aligned(copy(50, 100, 10, producer="Q"), source, target)


def test_l2_aligned_is_free_beside_the_cell() -> None:
    source, target = Place("P", 50, 10), Place("D", 100, 10)
    assert aligned(copy(0, 90, 10), source, target)
    assert not aligned(copy(0, 90, 11), source, target)
    assert aligned(copy(0, 110, 10), source, target)
    assert not aligned(copy(0, 109, 10), source, target)
    assert aligned(copy(0, 100, 10, consumer="E"), source, target)


def test_l2_untouched() -> None:
    target = Place("D", 100, 10)
    assert untouched(copy(0, 90, 10), target)
    assert not untouched(copy(0, 90, 11), target)
    assert untouched(copy(0, 110, 1), target)
    assert not untouched(copy(0, 109, 1), target)
    assert untouched(copy(0, 100, 10, consumer="E"), target)


def test_l3_byte_confined() -> None:
    write = Place("D", 10, 4)
    assert [i for i in range(4) if byte_confined(write, i, Place("D", 11, 2))] == [1, 2]
    assert not any(byte_confined(write, i, Place("E", 11, 2)) for i in range(4))


def test_l3_extents_of_a_block() -> None:
    assert page_extent(VIEW, 3, 0) == Place("D", 4 + 6 * 16, 8)
    assert page_extent(VIEW, 3, 1) == Place("D", 4 + 7 * 16, 8)
    assert row_extent(VIEW, 3, 1) == Place("D", 7 * 16, 16)
    assert row_place(VIEW, 7) == Place("D", 7 * 16, 16)


def test_l4_span_in_storage() -> None:
    assert span_in_storage(Place("D", 0, 10), 10)
    assert span_in_storage(Place("D", 10, 0), 10)
    assert not span_in_storage(Place("D", 0, 11), 10)
    assert not span_in_storage(Place("D", 1, 10), 10)
    assert not span_in_storage(Place("D", -1, 1), 10)
    assert not span_in_storage(Place("D", 5, -1), 10)


def test_l4_id_in_pool() -> None:
    assert [block for block in range(-1, 5) if id_in_pool(block, 3)] == [0, 1, 2]


def test_l4_address_fits() -> None:
    assert address_fits(2**64 - 10, 4, 6)
    assert not address_fits(2**64 - 10, 4, 7)
    assert not address_fits(2**64 - 10, 5, 6)
    assert not address_fits(2**64 - 9, 4, 6)
    assert not address_fits(-1, 0, 1)
    assert not address_fits(0, -1, 1)
    assert address_fits(0, 0, 0)


def test_l5_same_value() -> None:
    first = copy(50, 100, 10)
    assert same_value(first, copy(55, 105, 10), "D", 107)
    assert not same_value(first, copy(56, 105, 10), "D", 107)
    assert not same_value(first, copy(55, 105, 10, producer="Q"), "D", 107)


def test_l5_same_value_speaks_of_bytes_that_both_write() -> None:
    first, second = copy(50, 100, 10), copy(0, 105, 10)
    assert [byte for byte in range(95, 120) if not same_value(first, second, "D", byte)] == [105, 106, 107, 108, 109]
    assert same_value(first, second, "E", 107)
    assert same_value(first, copy(0, 105, 10, consumer="E"), "D", 107)


def test_l5_not_also_zeroed() -> None:
    hits = [byte for byte in range(15) if not not_also_zeroed(copy(0, 0, 10), Place("D", 8, 5), "D", byte)]
    assert hits == [8, 9]
    assert not_also_zeroed(copy(0, 0, 10), Place("E", 8, 5), "D", 8)
    assert not_also_zeroed(copy(0, 0, 10), Place("D", 8, 5), "E", 8)


def test_l6a_page_inside() -> None:
    # Page 3 is [52, 60).
    assert page_inside(VIEW, REGION, 3)
    assert page_inside(VIEW, replace(REGION, offset=3, bytes=9), 3)
    assert page_inside(VIEW, replace(REGION, bytes=9), 3)
    assert not page_inside(VIEW, replace(REGION, bytes=7), 3)
    assert not page_inside(VIEW, replace(REGION, offset=5), 3)
    assert not page_inside(VIEW, replace(REGION, offset=3), 3)
    assert not page_inside(VIEW, replace(REGION, stride=17), 3)
    assert not page_inside(VIEW, replace(REGION, storage="E"), 3)


def test_l6b_no_stowaway() -> None:
    origin, goal = Place("P", 10, 20), Place("D", 100, 20)
    assert no_stowaway(Place("P", 14, 8), origin, Place("D", 104, 8), goal)
    assert not no_stowaway(Place("P", 15, 8), origin, Place("D", 104, 8), goal)
    assert not no_stowaway(Place("Q", 14, 8), origin, Place("D", 104, 8), goal)


def test_l6b_no_stowaway_is_free_beside_the_descriptor() -> None:
    origin, goal = Place("P", 10, 20), Place("D", 100, 20)
    assert no_stowaway(Place("P", 0, 8), origin, Place("D", 120, 8), goal)
    assert not no_stowaway(Place("P", 0, 8), origin, Place("D", 119, 8), goal)
    assert no_stowaway(Place("P", 0, 8), origin, Place("D", 92, 8), goal)
    assert not no_stowaway(Place("P", 0, 8), origin, Place("D", 93, 8), goal)


def test_l6c_equal_length() -> None:
    assert equal_length(REGION, replace(REGION, storage="P", offset=0, stride=99, pages=3))
    assert not equal_length(REGION, replace(REGION, bytes=7))


def test_l6d_fits() -> None:
    assert fits(VIEW, "VRAM", REGION, 0)
    assert fits(VIEW, "VRAM", replace(REGION, offset=0), 4)
    assert not fits(VIEW, "VRAM", replace(REGION, offset=0), 3)
    assert not fits(VIEW, "VRAM", REGION, 1)
    assert not fits(VIEW, "DRAM", REGION, 0)
    for other in ({"storage": "E"}, {"offset": 5}, {"stride": 15}, {"pages": 9}, {"pages": 11}, {"memory": "DRAM"}):
        assert not fits(VIEW, "VRAM", replace(REGION, **other), 0), other


def test_l7_id_in_range() -> None:
    assert [value for value in range(8) if id_in_range(value, 3, 6)] == [3, 4, 5]


def test_l7_distinct() -> None:
    assert distinct(0, 20, 1, 21)
    assert distinct(1, 20, 1, 20)
    assert not distinct(0, 20, 1, 20)


def test_l7_sections_apart() -> None:
    assert sections_apart(0, 5, 5, 9)
    assert sections_apart(5, 9, 0, 5)
    assert not sections_apart(0, 6, 5, 9)
    assert not sections_apart(5, 9, 0, 6)
    assert not sections_apart(0, 9, 3, 4)
    assert sections_apart(0, 9, 3, 3)
    assert sections_apart(3, 3, 0, 9)


def test_l8_counts_pair() -> None:
    assert counts_pair(3, 3)
    assert not counts_pair(3, 2)
    assert not counts_pair(2, 3)


def test_l8_descriptors_pair() -> None:
    assert descriptors_pair(64, "VRAM", "VRAM", 64, "DRAM", "DRAM")
    assert not descriptors_pair(64, "VRAM", "VRAM", 63, "DRAM", "DRAM")
    assert not descriptors_pair(64, "VRAM", "DRAM", 64, "DRAM", "DRAM")
    assert not descriptors_pair(64, "VRAM", "VRAM", 64, "DRAM", "VRAM")


def test_l9a_zero_spares() -> None:
    cell = Place("D", 100, 10)
    assert zero_spares(Place("D", 90, 10), cell)
    assert not zero_spares(Place("D", 90, 11), cell)
    assert zero_spares(Place("D", 110, 1), cell)
    assert not zero_spares(Place("D", 109, 1), cell)
    assert zero_spares(Place("E", 100, 10), cell)


def owed(blocks: BlockTable, first_token: int, tokens: int) -> list[int]:
    """Page ordinals (four tokens a page, two pages a block) that owe a zero."""
    return [ordinal for ordinal in range(-1, 9) if page_owed(VIEW, blocks, ordinal, first_token, tokens)]


def test_l9b_page_owed() -> None:
    assert owed(table(5, 6, 7), 0, 9) == [3]  # tokens 12 to 15, beside the page of token 8
    assert owed(table(5, 6, 7), 0, 12) == [3]
    assert owed(table(5, 6, 7), 0, 13) == []
    assert owed(table(5, 6, 7), 0, 8) == []  # block 2 holds no needed token
    assert owed(table(5, 6, 7), 0, 17) == [5]


def test_l9b_owed_only_in_listed_uncached_blocks_that_hold_a_needed_token() -> None:
    assert owed(table(5), 0, 9) == []
    assert owed(table(5, 6, null=6), 0, 9) == []
    assert owed(table(6, first=1), 8, 9) == [3]
    assert owed(table(5, 6, 7), 9, 9) == []
    assert owed(table(5, 6, 7, cached=8), 8, 9) == [3]
    assert owed(table(5, 6, 7, cached=16), 8, 9) == []  # no lawful request, but the kernel says it: cached owes nothing


def test_l9b_byte_zeroed() -> None:
    # Ordinal 3 is page 13, bytes [212, 220).
    blocks = table(5, 6)
    assert [i for i in range(8) if byte_zeroed(Place("D", 214, 3), VIEW, blocks, 3, i)] == [2, 3, 4]
    assert not any(byte_zeroed(Place("E", 214, 3), VIEW, blocks, 3, i) for i in range(8))


def test_l10_unit_held() -> None:
    needed = PartView(0, 2, 2, 4, "unit-major")
    assert [unit for unit in range(6) if not unit_held(PartView(0, 3, 9, 4, "unit-major"), needed, unit)] == [2]
    assert [unit for unit in range(6) if not unit_held(PartView(0, 0, 3, 4, "unit-major"), needed, unit)] == [3]
    assert all(unit_held(PartView(0, 2, 2, 4, "unit-major"), needed, unit) for unit in range(6))


def test_l11_not_moved_twice() -> None:
    hits = [byte for byte in range(15) if not not_moved_twice(copy(0, 0, 10), copy(0, 8, 5), "D", byte)]
    assert hits == [8, 9]
    assert not_moved_twice(copy(0, 0, 10), copy(0, 8, 5, consumer="E"), "D", 8)


def test_l11_byte_useful() -> None:
    assert [i for i in range(10) if byte_useful(copy(0, 100, 10), i, Place("D", 104, 2))] == [4, 5]
    assert not byte_useful(copy(0, 100, 10), 4, Place("E", 104, 2))


def test_l11_not_contained() -> None:
    inner = replace(REGION, offset=6, bytes=4)
    assert not not_contained(inner, REGION, 3)
    assert not not_contained(REGION, REGION, 3)
    assert not_contained(REGION, inner, 3)
    assert not_contained(replace(inner, bytes=7), REGION, 3)
    assert not_contained(replace(inner, offset=3), REGION, 3)
    assert not_contained(inner, replace(REGION, storage="E"), 3)


def test_l11_not_contained_speaks_of_pages_that_both_have() -> None:
    inner = replace(REGION, offset=6, bytes=4, pages=3)
    assert [page for page in range(-1, 5) if not not_contained(inner, REGION, page)] == [0, 1, 2]
    assert [
        page for page in range(-1, 5) if not not_contained(replace(inner, pages=9), replace(REGION, pages=2), page)
    ] == [0, 1]


def test_descriptors_step_by_the_stride() -> None:
    assert descriptor(REGION, 3) == Place("D", 52, 8)


def test_places() -> None:
    outer = Place("D", 10, 10)
    for inner, overlap, contained in (
        (Place("D", 10, 10), True, True),
        (Place("D", 9, 10), True, False),
        (Place("D", 11, 10), True, False),
        (Place("D", 11, 9), True, True),
        (Place("D", 0, 10), False, False),
        (Place("D", 0, 11), True, False),
        (Place("D", 20, 1), False, False),
        (Place("D", 19, 1), True, True),
        (Place("E", 10, 10), False, False),
    ):
        assert place.overlaps(outer, inner) == place.overlaps(inner, outer) == overlap
        assert place.disjoint(outer, inner) == place.disjoint(inner, outer) == (not overlap)
        assert place.contains(outer, inner) == contained
    assert [byte for byte in range(30) if place.byte_in(outer, "D", byte)] == list(range(10, 20))
    assert not place.byte_in(outer, "E", 15)


@pytest.mark.parametrize(
    "field", ["page_bytes", "page_stride", "pages_per_block", "states_per_page", "tokens_per_state"]
)
def test_w1_sizes_positive(field: str) -> None:
    assert wf.sizes_positive(replace(VIEW, offset=0, **{field: 1}))
    assert not wf.sizes_positive(replace(VIEW, **{field: 0}))
    assert not wf.sizes_positive(replace(VIEW, offset=-1))


def test_w2_tokens_divide() -> None:
    assert wf.tokens_divide(12, 3, 2)
    assert not wf.tokens_divide(13, 3, 2)
    assert not wf.tokens_divide(12, 3, 3)


def test_w3_page_in_stride() -> None:
    assert wf.page_in_stride(replace(VIEW, page_bytes=16))
    assert not wf.page_in_stride(replace(VIEW, page_bytes=17))


def test_w4_units_and_parts() -> None:
    assert wf.units_held(PartView(0, 2, 2, 1, ""), 4)
    assert not wf.units_held(PartView(0, 2, 2, 1, ""), 3)
    assert not wf.units_held(PartView(0, -1, 2, 1, ""), 4)
    assert not wf.units_held(PartView(0, 2, 0, 1, ""), 4)
    assert not wf.units_held(PartView(0, 2, 2, 0, ""), 4)
    # Two units of two states of a byte each from byte 4 on: the page has 8 bytes.
    assert wf.part_bytes(VIEW, PartView(4, 0, 2, 1, "")) == 4
    assert wf.part_in_page(VIEW, PartView(4, 0, 2, 1, ""))
    assert not wf.part_in_page(VIEW, PartView(5, 0, 2, 1, ""))
    assert not wf.part_in_page(VIEW, PartView(-1, 0, 2, 1, ""))


def test_w5_storage() -> None:
    # The last page is [148, 156).
    assert wf.view_in_storage(VIEW, 156)
    assert not wf.view_in_storage(VIEW, 155)
    assert wf.view_in_storage(replace(VIEW, pages=0), 0)
    assert wf.storage_addressable(2**64 - 8, 8)
    assert not wf.storage_addressable(2**64 - 8, 9)


def test_w6_block_in_pool() -> None:
    assert [block for block in range(-1, 5) if wf.block_in_pool(block, 3)] == [0, 1, 2]


def test_w7_blocks_distinct() -> None:
    assert wf.blocks_distinct(table(5, 6), 0, 1)
    assert wf.blocks_distinct(table(5, 5), 1, 1)
    assert not wf.blocks_distinct(table(5, 5), 0, 1)
    assert wf.blocks_distinct(table(5, 5, null=5), 0, 1)
    assert wf.blocks_distinct(table(5, 5), 2, 3)


def test_w8_groups_distinct() -> None:
    assert wf.groups_distinct(table(5), 0, table(6), 0)
    assert not wf.groups_distinct(table(5), 0, table(5), 0)
    assert wf.groups_distinct(table(5, null=5), 0, table(5, null=5), 0)
    assert wf.groups_distinct(table(5), 1, table(5), 1)


def test_w9_one_frame() -> None:
    # VIEW's block 0 is [4, 28), its pitch 32.
    assert (wf.pitch(VIEW), wf.block_end(VIEW)) == (32, 28)
    assert wf.one_frame(VIEW, replace(VIEW, offset=12))
    assert not wf.one_frame(VIEW, replace(VIEW, offset=13))
    assert not wf.one_frame(replace(VIEW, offset=13), VIEW)
    assert not wf.one_frame(VIEW, replace(VIEW, page_stride=17))
    assert wf.one_frame(VIEW, replace(VIEW, page_stride=32, pages_per_block=1))
    long = replace(VIEW, page_bytes=16)
    assert wf.one_frame(long, long)
    assert not wf.one_frame(replace(long, page_bytes=17), replace(long, offset=8, page_bytes=1))


def test_w9_w11_framed() -> None:
    beside = replace(VIEW, offset=156)
    assert wf.view_range(VIEW) == Place("D", 4, 152)
    assert wf.framed(VIEW, beside, same_pool=False)
    assert not wf.framed(VIEW, replace(beside, offset=155), same_pool=False)
    assert wf.framed(VIEW, replace(VIEW, offset=12), same_pool=True)
    assert not wf.framed(VIEW, replace(VIEW, offset=12), same_pool=False)
    assert not wf.framed(VIEW, replace(VIEW, offset=13), same_pool=True)
    assert wf.framed(VIEW, replace(VIEW, storage="E"), same_pool=False)


def test_w10_layers_disjoint() -> None:
    # Bytes [4, 12) of every 16; the second begins so far behind.
    shifts = [s for s in range(-16, 17) if wf.layers_disjoint(VIEW, replace(VIEW, offset=4 + s, page_bytes=6))]
    assert shifts == [-8, -7, -6, 8, 9, 10]


def test_w13_tables_reach() -> None:
    # Blocks of four tokens: [4, 12) are listed.
    listed = table(5, 6, first=1)
    assert wf.table_reaches(listed, 4, 4, 12)
    assert not wf.table_reaches(listed, 4, 3, 12)
    assert not wf.table_reaches(listed, 4, 4, 13)
    assert wf.table_reaches(listed, 4, 13, 13)
    assert [token for token in range(16) if wf.token_listed(listed, 4, token)] == [4, 5, 6, 7, 8, 9, 10, 11]
    assert not wf.token_listed(table(5, 6, first=1, null=6), 4, 8)


def test_w14_w15_cached_prefix() -> None:
    assert [cached for cached in range(-1, 5) if wf.cached_in_prompt(cached, 3)] == [0, 1, 2, 3]
    assert [cached for cached in range(9) if wf.cached_whole_pages(cached, 4)] == [0, 4, 8]
    assert [cached for cached in range(9) if wf.cached_whole_states(cached, 4)] == [0, 4, 8]


@pytest.mark.parametrize("field", ["page_bytes", "states_per_page", "tokens_per_state"])
def test_w16_pages_alike(field: str) -> None:
    other = replace(VIEW, storage="P", offset=0, page_stride=99, pages=3, pages_per_block=1)
    assert wf.pages_alike(other, VIEW)
    assert not wf.pages_alike(replace(other, **{field: 1}), VIEW)


@pytest.mark.parametrize("field", ["start", "first", "count", "unit_bytes"])
def test_w16_parts_alike(field: str) -> None:
    part = PartView(3, 4, 5, 6, "unit-major")
    assert wf.parts_alike(part, part)
    assert not wf.parts_alike(replace(part, **{field: 7}), part)


def test_w19_live_given() -> None:
    assert [live for live in range(-1, 4) if wf.live_given(live, 2)] == [0, 1]


def test_w20_counts_add_up() -> None:
    assert wf.counts_add_up(5, 0, 5)
    assert wf.counts_add_up(5, 3, 8)
    assert not wf.counts_add_up(5, 3, 7)
    assert not wf.counts_add_up(5, -1, 4)
