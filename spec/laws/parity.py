# SPDX-License-Identifier: Apache-2.0
"""L8 parity: source and target descriptors pair one to one, with equal lengths, in the memory of their list."""

from __future__ import annotations

from kvproof.spec.logic import Bool, Int, all_of


def counts_pair(source_count: Int, target_count: Int) -> Bool:
    """As many source ids as target ids."""
    return source_count == target_count


def descriptors_pair(
    source_bytes: Int, source_memory: Int, source_list: Int, target_bytes: Int, target_memory: Int, target_list: Int
) -> Bool:
    """Equal lengths, and each descriptor's storage is of the memory kind its list was prepared in."""
    return all_of(source_bytes == target_bytes, source_memory == source_list, target_memory == target_list)
