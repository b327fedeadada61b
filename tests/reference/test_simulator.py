# SPDX-License-Identifier: Apache-2.0
"""The byte simulator: order, bounds, and patterns that tell bytes apart."""

import pytest
from small_cases import padded_tail, reverse_geometry

from kvproof.reference.derive import derive
from kvproof.reference.simulator import execute, pattern, patterned
from kvproof.spec.place import Place
from kvproof.spec.plan import Copy, Plan


def copy(source: int, target: int, length: int, storage: str = "w/s") -> Copy:
    return Copy(Place(storage, source, length), Place(storage, target, length))


def run(content: bytes, *copies: Copy, zeroes: tuple[Place, ...] = ()) -> bytes:
    memory = {"w/s": bytearray(content)}
    execute(Plan(copies, zeroes), memory)
    return bytes(memory["w/s"])


def test_copies_read_what_was_there_before() -> None:
    assert run(b"abcd", copy(0, 1, 3)) == b"aabc"
    assert run(b"abcd", copy(0, 2, 2), copy(2, 0, 2)) == b"cdab"


def test_the_later_copy_wins() -> None:
    assert run(b"abcd", copy(0, 3, 1), copy(1, 3, 1)) == b"abcb"
    assert run(b"abcd", copy(1, 3, 1), copy(0, 3, 1)) == b"abca"


def test_zeroes_come_last() -> None:
    assert run(b"abcd", copy(0, 2, 2), zeroes=(Place("w/s", 3, 1),)) == b"aba\0"


@pytest.mark.parametrize(
    "plan",
    [
        Plan((copy(0, 0, 1), copy(2, 0, 3)), ()),
        Plan((copy(0, 0, 1), copy(0, 2, 3)), ()),
        Plan((copy(0, 0, 1), copy(-1, 0, 1)), ()),
        Plan((copy(0, 0, 1), copy(0, 0, 1, "w/t")), ()),
        Plan((copy(0, 0, 1), Copy(Place("w/s", 0, 1), Place("w/s", 0, 2))), ()),
        Plan((copy(3, 0, 1),), (Place("w/s", 4, 1),)),
    ],
)
def test_a_bad_span_is_named_and_nothing_happens(plan: Plan) -> None:
    memory = {"w/s": bytearray(b"abcd")}
    with pytest.raises(ValueError, match=r"bytes \[-?\d+, \d+\) of w/"):
        execute(plan, memory)
    assert memory == {"w/s": bytearray(b"abcd")}


def test_a_span_may_end_where_its_storage_does() -> None:
    assert run(b"abcd", copy(3, 0, 1)) == b"dbcd"


def test_patterns_tell_sides_storages_and_positions_apart() -> None:
    memory = patterned(padded_tail())
    assert {name: len(content) for name, content in memory.items()} == {
        "P0/main": 6400,
        "P0/index": 12800,
        "D0/host": 6400,
        "D0/index": 12800,
    }
    assert not set(memory["P0/main"] + memory["P0/index"]) & set(memory["D0/host"] + memory["D0/index"])
    assert all(0 not in content for content in memory.values())
    assert all(x != y for x, y in zip(memory["P0/main"], memory["P0/index"], strict=False))
    content = memory["P0/index"]
    for shift in (1, 2, 16, 64, 128, 256, 512, 528, 576, 656, 1024, 4096):
        assert sum(x == y for x, y in zip(content, content[shift:], strict=False)) < len(content) / 50
    assert memory == patterned(padded_tail())


@pytest.mark.parametrize("page_bytes", [16, 64, 96, 512])
def test_hardly_two_pages_of_a_pattern_are_equal(page_bytes: int) -> None:
    content = pattern(1000 * page_bytes, 1, 0)
    assert len({bytes(content[start : start + page_bytes]) for start in range(0, len(content), page_bytes)}) > 990


def test_a_pattern_longer_than_its_period_goes_on() -> None:
    content = pattern(2_100_001, 128, 5)
    assert len(content) == 2_100_001
    assert (min(content), max(content)) == (128, 254)
    assert content[:1000] == pattern(1000, 128, 5)


def test_padded_tail_lands_byte_for_byte() -> None:
    found = padded_tail(cached_on_host=64)
    before, memory = patterned(found), patterned(found)
    execute(derive(found).plan, memory)
    # D's host pages 31 and 32 hold what P's pages 21 and 22 hold; the cached page 30 and all others are as before.
    assert memory["D0/host"][31 * 64 : 33 * 64] == before["P0/main"][21 * 64 : 23 * 64]
    assert memory["D0/host"][: 31 * 64] == before["D0/host"][: 31 * 64]
    assert memory["D0/host"][33 * 64 :] == before["D0/host"][33 * 64 :]
    assert memory["D0/index"][40 * 128 : 43 * 128] == before["P0/index"][20 * 128 : 23 * 128]
    assert (memory["P0/main"], memory["P0/index"]) == (before["P0/main"], before["P0/index"])


def test_reverse_geometry_ends_with_a_zero_page() -> None:
    found = reverse_geometry()
    before, memory = patterned(found), patterned(found)
    execute(derive(found).plan, memory)
    assert memory["D0/host"][63 * 64 : 64 * 64] == bytes(64)
    assert memory["D0/host"][64 * 64 :] == before["D0/host"][64 * 64 :]
    assert memory["D0/host"][60 * 64 : 63 * 64] == before["P0/main"][10 * 64 : 13 * 64]
