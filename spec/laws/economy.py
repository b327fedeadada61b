# SPDX-License-Identifier: Apache-2.0
"""L11 economy: each useful byte is moved once, and nothing else of a group's blocks."""

from __future__ import annotations

from kvproof.spec.logic import Bool, Int, all_of, implies, negate
from kvproof.spec.place import Place, StorageId, byte_in, contains
from kvproof.spec.plan import Copy
from kvproof.spec.tables import Region, descriptor


def not_moved_twice(first: Copy, second: Copy, storage: StorageId, byte: Int) -> Bool:
    """Two different copies do not both write this byte."""
    return negate(all_of(byte_in(first.target, storage, byte), byte_in(second.target, storage, byte)))


def byte_useful(copy: Copy, index: Int, extent: Place) -> Bool:
    """Byte ``index`` of the copy's target lies in a page (in a block-outer storage: a row) that is useful.

    Useful extents hold a needed token, or are the live ssm or ring block's.
    """
    return byte_in(extent, copy.target.storage, copy.target.offset + index)


def not_contained(first: Region, second: Region, page: Int) -> Bool:
    """Tables: of two regions that the same group addresses, the first's descriptors do not lie in the second's."""
    both = all_of(0 <= page, page < first.pages, page < second.pages)
    return implies(both, negate(contains(descriptor(second, page), descriptor(first, page))))
