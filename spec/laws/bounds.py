# SPDX-License-Identifier: Apache-2.0
"""L4 bounds: spans lie in their storage, ids in their pool, addresses below 2^64."""

from __future__ import annotations

from kvproof.spec.logic import Bool, Int, all_of
from kvproof.spec.place import Place

ADDRESS_LIMIT = 2**64


def span_in_storage(span: Place, storage_bytes: Int) -> Bool:
    """The span lies inside its storage of so many bytes."""
    return all_of(0 <= span.offset, 0 <= span.bytes, span.offset + span.bytes <= storage_bytes)


def id_in_pool(block: Int, blocks: Int) -> Bool:
    """The logical block id is one of the pool's."""
    return all_of(0 <= block, block < blocks)


def address_fits(base: Int, offset: Int, length: Int) -> Bool:
    """The addresses of ``length`` bytes at ``base + offset`` need no more than 64 bits."""
    return all_of(0 <= base, 0 <= offset, base + offset + length <= ADDRESS_LIMIT)
