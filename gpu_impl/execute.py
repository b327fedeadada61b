# SPDX-License-Identifier: Apache-2.0
"""A plan carried out on tensors, without NIXL: for comparison with every other way to carry it out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvproof.spec.plan import Plan

if TYPE_CHECKING:
    import torch


def execute_on_tensors(plan: Plan, memory: dict[str, torch.Tensor]) -> None:
    """Carry the plan out in place. ``memory`` maps ``worker/storage`` to a one-dimensional uint8 tensor.

    Copies all read the memory as it was before, and are written in order; zeroes come last. A span that leaves its
    storage, or has two lengths, is an IndexError before anything is written.
    """
    for place in (*(place for copy in plan.copies for place in (copy.source, copy.target)), *plan.zeroes):
        if place.offset < 0 or place.bytes < 0 or place.offset + place.bytes > len(memory[place.storage]):
            raise IndexError(f"[{place.offset}, {place.offset + place.bytes}) is not inside {place.storage}")
    for copy in plan.copies:
        if copy.source.bytes != copy.target.bytes:
            raise IndexError(f"{copy.source.bytes} bytes go to {copy.target.bytes}")
    before = [
        memory[copy.source.storage][copy.source.offset : copy.source.offset + copy.source.bytes].clone()
        for copy in plan.copies
    ]
    for copy, value in zip(plan.copies, before, strict=True):
        memory[copy.target.storage][copy.target.offset : copy.target.offset + copy.target.bytes] = value
    for place in plan.zeroes:
        memory[place.storage][place.offset : place.offset + place.bytes] = 0


def execute_on_bytes(plan: Plan, memory: dict[str, bytearray]) -> dict[str, bytearray]:
    """The same for those who have no tensors: what the memory holds afterwards. ImportError without torch."""
    import torch

    tensors = {name: torch.frombuffer(content, dtype=torch.uint8).clone() for name, content in memory.items()}
    execute_on_tensors(plan, tensors)
    return {name: bytearray(tensor.numpy().tobytes()) for name, tensor in tensors.items()}
