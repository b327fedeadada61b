# SPDX-License-Identifier: Apache-2.0
"""L5 single-writer: no required byte gets two different values."""

from __future__ import annotations

from kvproof.spec.logic import Bool, Int, all_of, implies, negate
from kvproof.spec.place import Place, StorageId, byte_in
from kvproof.spec.plan import Copy


def same_value(first: Copy, second: Copy, storage: StorageId, byte: Int) -> Bool:
    """If both copies write this byte of a storage, they bring the same source byte.

    With one producer a cell byte has one address, so that equal values are equal addresses.
    """
    both = all_of(byte_in(first.target, storage, byte), byte_in(second.target, storage, byte))
    same_source = all_of(
        first.source.storage == second.source.storage,
        first.source.offset - first.target.offset == second.source.offset - second.target.offset,
    )
    return implies(both, same_source)


def not_also_zeroed(copy: Copy, zero: Place, storage: StorageId, byte: Int) -> Bool:
    """Zero is a value of its own: a byte that is copied is not zeroed."""
    return negate(all_of(byte_in(copy.target, storage, byte), byte_in(zero, storage, byte)))
