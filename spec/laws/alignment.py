# SPDX-License-Identifier: Apache-2.0
"""L2 alignment: what is written into a cell is that same byte of that same cell on the producer."""

from __future__ import annotations

from kvproof.spec.logic import Bool, all_of, implies, negate
from kvproof.spec.place import Place, overlaps
from kvproof.spec.plan import Copy


def aligned(copy: Copy, source: Place, target: Place) -> Bool:
    """If the copy touches the target cell, it brings the same bytes of the source cell.

    L2: for each copy and each required or cached cell; ``source`` is where a producer holds the same cell.
    """
    same_shift = all_of(
        copy.source.storage == source.storage,
        copy.source.offset - copy.target.offset == source.offset - target.offset,
    )
    return implies(overlaps(copy.target, target), same_shift)


def untouched(copy: Copy, target: Place) -> Bool:
    """L2 for a cell that no producer holds: nothing may be written into it."""
    return negate(overlaps(copy.target, target))
