# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from kvproof.gpu_impl.pattern import stretch, trace

SIZES = {0: 1_000_003, 3: 4096, 65535: 100}


def test_no_byte_is_zero_and_neighbours_differ() -> None:
    octets = stretch(3, 0, 2**16)
    assert octets.min() > 0
    words = octets.view(np.uint64)
    assert len(np.unique(words)) == len(words)


def test_any_stretch_is_that_stretch_of_the_whole() -> None:
    whole = stretch(0, 0, SIZES[0])
    for start, count in [(0, 0), (0, 1), (7, 1), (8, 8), (13, 3), (262_140, 20), (999_990, 13), (5, 900_000)]:
        assert np.array_equal(stretch(0, start, count), whole[start : start + count])


def test_storages_and_seeds_have_patterns_of_their_own() -> None:
    some = [stretch(number, 0, 800, seed).view(np.uint64) for number in (0, 1, 2) for seed in (0, 1)]
    assert len(np.unique(np.concatenate(some))) == 600


@pytest.mark.parametrize("offset", range(40, 49))
@pytest.mark.parametrize("seed", [0, 5])
def test_bytes_tell_where_they_come_from(offset: int, seed: int) -> None:
    for number in (3, 65535):
        assert trace(stretch(number, offset, 15, seed), SIZES, seed) == (number, offset)
    assert trace(stretch(3, offset, 15, seed), SIZES, seed + 1) is None
    assert trace(stretch(3, offset, 15, seed), {0: SIZES[0]}, seed) is None


def test_a_word_far_into_a_storage_is_traced_too() -> None:
    assert trace(stretch(7, 2**42, 16), {7: 2**43}) == (7, 2**42)


def test_what_is_not_of_the_pattern_comes_from_nowhere() -> None:
    assert trace(np.zeros(64, dtype=np.uint8), SIZES) is None
    assert trace(stretch(3, 40, 5), SIZES) is None
    assert trace(np.arange(64, dtype=np.uint8), SIZES) is None
    # The last byte before another storage's: no offset below zero, none past the end.
    assert trace(stretch(3, 4096, 16), SIZES) is None
