# SPDX-License-Identifier: Apache-2.0
"""Byte ranges of storages, and how two of them lie to each other. Kernels, as in ``kvproof.spec.cells``."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from kvproof.spec.logic import Bool, Int, all_of, any_of, negate

StorageId: TypeAlias = Any
"""``worker/storage`` in a case, an integer term in a proof. Only ever compared for equality."""


class Place(msgspec.Struct, frozen=True):
    """The bytes ``[offset, offset + bytes)`` of a storage."""

    storage: StorageId
    offset: Int
    bytes: Int


def overlaps(first: Place, second: Place) -> Bool:
    """The two places share a byte (both non-empty)."""
    return all_of(
        first.storage == second.storage,
        first.offset < second.offset + second.bytes,
        second.offset < first.offset + first.bytes,
    )


def contains(outer: Place, inner: Place) -> Bool:
    """Every byte of ``inner`` lies in ``outer``."""
    return all_of(
        outer.storage == inner.storage,
        outer.offset <= inner.offset,
        inner.offset + inner.bytes <= outer.offset + outer.bytes,
    )


def byte_in(place: Place, storage: StorageId, byte: Int) -> Bool:
    """The byte of the storage lies in the place."""
    return all_of(place.storage == storage, place.offset <= byte, byte < place.offset + place.bytes)


def disjoint(first: Place, second: Place) -> Bool:
    """The two places share no byte."""
    return any_of(
        negate(first.storage == second.storage),
        first.offset + first.bytes <= second.offset,
        second.offset + second.bytes <= first.offset,
    )
