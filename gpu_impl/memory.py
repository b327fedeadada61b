# SPDX-License-Identifier: Apache-2.0
"""The storages of one worker as torch tensors of bytes.

On ``cuda`` a VRAM storage is device memory and a DRAM storage is host memory; on ``cpu`` both are host memory.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, cast

import msgspec
import numpy as np

from kvproof.gpu_impl.pattern import Bytes, fill

Device = Literal["cpu", "cuda"]
Tensor: TypeAlias = Any
"""A torch.Tensor; torch is imported only where memory is made."""


class Allocation(msgspec.Struct, frozen=True):
    """One storage to make: its number in the pattern, its bytes and its memory kind in the case."""

    number: int
    bytes: int
    memory: str


class Storages:
    """The memory of one worker, filled with its pattern. Storages are named by position in ``allocations``."""

    def __init__(self, allocations: tuple[Allocation, ...], device: Device, seed: int) -> None:
        self.allocations = allocations
        self.device = device
        self.tensors: list[Tensor] = [_allocate(each, device, seed) for each in allocations]
        self.synchronize()

    def address(self, index: int) -> int:
        """Address of the storage's first byte."""
        return int(self.tensors[index].data_ptr())

    def kind(self, index: int) -> str:
        """The memory kind as NIXL sees it."""
        return nixl_memory(self.allocations[index].memory, self.device)

    def zero(self, index: int, offset: int, length: int, stride: int, count: int) -> None:
        """Zero ``count`` spans of ``length`` bytes, ``stride`` apart, through a strided view."""
        if stride <= length and count > 1:  # the spans touch or overlap: one long one
            length, stride, count = stride * (count - 1) + length, 0, 1
        view = strided(self.tensors[index], offset, length, stride if count > 1 else length, count)
        view.zero_()

    def host(self, index: int) -> Bytes:
        """The bytes of the storage on the host: the memory itself, or a copy of device memory."""
        return cast(Bytes, self.tensors[index].cpu().numpy())

    def synchronize(self) -> None:
        """Wait until the device has done what was asked of it."""
        if self.device == "cuda":
            import torch

            torch.cuda.synchronize()


def nixl_memory(memory: str, device: Device) -> str:
    """The kind a case's storage is registered and listed as: without a GPU everything is DRAM."""
    return memory if device == "cuda" else "DRAM"


def strided(tensor: Tensor, offset: int, length: int, stride: int, count: int) -> Tensor:
    """``count`` spans of ``length`` bytes as a view of shape ``[count, length]``, ``stride`` bytes apart."""
    import torch

    return torch.as_strided(tensor, (count, length), (stride, 1), offset)


def _allocate(each: Allocation, device: Device, seed: int) -> Tensor:
    import torch

    pattern = np.empty(each.bytes, dtype=np.uint8)
    fill(pattern, each.number, seed)
    host = torch.from_numpy(pattern)
    return host.to("cuda:0") if nixl_memory(each.memory, device) == "VRAM" else host
