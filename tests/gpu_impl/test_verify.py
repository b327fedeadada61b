# SPDX-License-Identifier: Apache-2.0
"""Findings in memory, on small arrays: storage 0 is the producer's, 1 and 2 the consumer's."""

import numpy as np

from kvproof.gpu_impl.pattern import Bytes, stretch
from kvproof.gpu_impl.verify import Findings, Wrong, arrived, as_planned, unchanged, union_bytes, zeroed

SIZES = {0: 400, 1: 300, 2: 9_000_000}
NO_ZEROES = np.empty((0, 3), dtype=np.int64)
COPIES = np.array([[0, 100, 1, 0, 64], [0, 20, 1, 164, 64]])


def memory() -> dict[int, Bytes]:
    return {1: stretch(1, 0, 300), 2: stretch(2, 0, SIZES[2])}


def moved() -> dict[int, Bytes]:
    found = memory()
    found[1][0:64] = stretch(0, 100, 64)
    found[1][164:228] = stretch(0, 20, 64)
    return found


def test_untouched_memory_is_unchanged() -> None:
    assert unchanged(memory(), 0, 10) == Findings((), 0, 0)


def test_one_changed_byte_is_found() -> None:
    for place in (0, 4_194_303, 4_194_304, SIZES[2] - 1):
        found = memory()
        found[2][place] ^= 1
        assert unchanged(found, 0, 10) == Findings((Wrong(2, place, 1),), 1, 1)


def test_spans_are_joined_over_small_gaps_and_over_chunks() -> None:
    found = memory()
    found[2][4_194_300:4_194_310] = 0
    found[2][4_194_317] = 0  # seven bytes between: one span
    found[2][4_194_326] = 0  # eight: another
    assert unchanged(found, 0, 10).spans == (Wrong(2, 4_194_300, 18), Wrong(2, 4_194_326, 1))


def test_only_the_first_spans_are_listed_and_all_are_counted() -> None:
    found = memory()
    found[1][::50] = 0
    found[2][1_000_000:8_500_000] = 0
    assert unchanged(found, 0, 2) == Findings((Wrong(1, 0, 1), Wrong(1, 50, 1)), 7, 7_500_006)


def test_a_plan_carried_out_is_as_planned() -> None:
    found = moved()
    found[1][290:300] = 0
    zeroes = np.array([[1, 290, 10]])
    assert as_planned(found, SIZES, 0, COPIES, zeroes, 10).count == 0
    assert as_planned(found, SIZES, 0, COPIES, NO_ZEROES, 10).spans == (Wrong(1, 290, 10),)
    assert as_planned(found, SIZES, 0, COPIES[:1], zeroes, 10).spans == (Wrong(1, 164, 64),)
    assert as_planned(memory(), SIZES, 0, COPIES, NO_ZEROES, 10).bytes == 128


def test_a_zero_after_a_copy_wins() -> None:
    found = moved()
    found[1][10:20] = 0
    assert as_planned(found, SIZES, 0, COPIES, np.array([[1, 10, 10]]), 10).count == 0


def test_required_bytes_tell_what_lies_there_instead() -> None:
    assert arrived(moved(), SIZES, 0, COPIES, 10).count == 0
    found = moved()
    found[1][0:64] = stretch(0, 103, 64)
    found[1][170:190] = stretch(1, 170, 20)
    found[1][200:228] = 0
    assert arrived(found, SIZES, 0, COPIES, 10).spans == (
        Wrong(1, 0, 64, expected=(0, 100), found=(0, 103)),
        Wrong(1, 170, 20, expected=(0, 26), found=(1, 170)),
        Wrong(1, 200, 28, zero=True, expected=(0, 56)),
    )


def test_bytes_that_nobody_requires_may_be_anything() -> None:
    found = moved()
    found[1][64:164] = 1
    assert arrived(found, SIZES, 0, COPIES, 10).count == 0


def test_owed_zeroes() -> None:
    found = memory()
    found[1][100:120] = 0
    owed = np.array([[1, 100, 20], [1, 119, 2]])
    assert zeroed(found, owed, 10) == Findings((Wrong(1, 119, 2),), 1, 2)


def test_distinct_bytes_of_spans() -> None:
    spans = np.array([[1, 10, 10], [1, 0, 5], [1, 15, 10], [2, 0, 7], [1, 11, 2]])
    assert union_bytes(spans) == 5 + 15 + 7
    assert union_bytes(np.empty((0, 3), dtype=np.int64)) == 0
