# SPDX-License-Identifier: Apache-2.0
"""L7 descriptor-ids: in range, distinct on the target side, sections never overlap, each side by its own counts."""

from __future__ import annotations

from kvproof.spec.logic import Bool, Int, all_of, any_of, implies


def id_in_range(descriptor_id: Int, start: Int, end: Int) -> Bool:
    """The id lies in the half-open range: of the list, or of the section it is meant for."""
    return all_of(start <= descriptor_id, descriptor_id < end)


def distinct(first_position: Int, first_id: Int, second_position: Int, second_id: Int) -> Bool:
    """Two positions of a target id list name two descriptors."""
    return implies(first_id == second_id, first_position == second_position)


def sections_apart(first_start: Int, first_end: Int, second_start: Int, second_end: Int) -> Bool:
    """Two sections of a list share no id; an empty one shares none with any."""
    return any_of(
        first_end <= second_start, second_end <= first_start, first_end <= first_start, second_end <= second_start
    )
