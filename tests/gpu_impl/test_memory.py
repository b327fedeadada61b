# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from kvproof.gpu_impl.memory import Allocation, Storages, nixl_memory
from kvproof.gpu_impl.pattern import stretch

pytest.importorskip("torch")


def storages() -> Storages:
    return Storages((Allocation(4, 100, "VRAM"), Allocation(5, 37, "DRAM")), "cpu", 2)


def test_storages_start_as_their_pattern() -> None:
    made = storages()
    assert np.array_equal(made.host(0), stretch(4, 0, 100, 2))
    assert np.array_equal(made.host(1), stretch(5, 0, 37, 2))
    assert made.address(0) == made.host(0).ctypes.data


@pytest.mark.parametrize(
    ("offset", "length", "stride", "count", "zero"),
    [
        (3, 5, 0, 1, {*range(3, 8)}),
        (10, 3, 40, 3, {10, 11, 12, 50, 51, 52, 90, 91, 92}),
        (10, 4, 4, 3, {*range(10, 22)}),
        (10, 4, 2, 3, {*range(10, 18)}),
        (0, 100, 7, 1, {*range(100)}),
    ],
)
def test_zeroing_through_views(offset: int, length: int, stride: int, count: int, zero: set[int]) -> None:
    made = storages()
    made.zero(0, offset, length, stride, count)
    assert set(np.flatnonzero(made.host(0) == 0).tolist()) == zero
    assert made.host(1).all()


def test_everything_is_dram_without_a_gpu() -> None:
    assert [nixl_memory(kind, "cpu") for kind in ("VRAM", "DRAM")] == ["DRAM", "DRAM"]
    assert [nixl_memory(kind, "cuda") for kind in ("VRAM", "DRAM")] == ["VRAM", "DRAM"]
