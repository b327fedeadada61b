# SPDX-License-Identifier: Apache-2.0
"""What the parent asks of its two processes, and what they answer."""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from kvproof.gpu_impl.memory import Allocation, Device
from kvproof.gpu_impl.validate import Ids, PlacedZero
from kvproof.gpu_impl.verify import Findings
from kvproof.gpu_impl.views import Ints


class Hello(msgspec.Struct, frozen=True):
    """The process is up: NIXL's version, and whether it can use a GPU."""

    version: str
    cuda: bool


class Missing(msgspec.Struct, frozen=True):
    """A package is missing or cannot be imported."""

    detail: str


class Failed(msgspec.Struct, frozen=True):
    """The request failed."""

    words: str


class Prepare(msgspec.Struct, frozen=True):
    """Make, fill and register these storages."""

    allocations: tuple[Allocation, ...]
    device: Device
    seed: int


class Prepared(msgspec.Struct, frozen=True):
    """Where the storages are, and the metadata by which another agent reads them."""

    addresses: tuple[int, ...]
    metadata: bytes


class PostedTransfer(msgspec.Struct, frozen=True):
    """One transfer at real addresses. Rows are ``uint64[rows, 5]``; memory kinds are NIXL's."""

    source_memory: str
    source_rows: NDArray[np.uint64]
    source_ids: Ids
    target_memory: str
    target_rows: NDArray[np.uint64]
    target_ids: Ids


class Read(msgspec.Struct, frozen=True):
    """Read from the producer, then zero."""

    metadata: bytes
    transfers: tuple[PostedTransfer, ...]
    zeroes: tuple[PlacedZero, ...]
    seconds: float


class Landed(msgspec.Struct, frozen=True):
    """Seconds that preparing the lists, reading and zeroing took."""

    prepare: float
    read: float
    zero: float


class VerifyUnchanged(msgspec.Struct, frozen=True):
    """Compare the own storages with their pattern."""

    limit: int


class VerifyLanded(msgspec.Struct, frozen=True):
    """Compare the own storages with a plan, required copies and owed zeroes (arrays as in ``verify``)."""

    sizes: dict[int, int]
    copies: Ints
    zeroes: Ints
    required: Ints
    owed: Ints
    limit: int


class Verified(msgspec.Struct, frozen=True):
    """What was found: of a producer only ``planned``, its changed bytes."""

    planned: Findings
    arrived: Findings = Findings((), 0, 0)
    zeroed: Findings = Findings((), 0, 0)


class Release(msgspec.Struct, frozen=True):
    """Deregister and free everything."""


class Released(msgspec.Struct, frozen=True):
    """Done."""


class Leave(msgspec.Struct, frozen=True):
    """End the process."""
