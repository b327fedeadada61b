# SPDX-License-Identifier: Apache-2.0
"""L1 coverage: every byte of every required cell is written."""

from __future__ import annotations

from kvproof.spec.logic import Bool, Int
from kvproof.spec.place import Place, byte_in
from kvproof.spec.plan import Copy


def byte_covered(copy: Copy, cell: Place, index: Int) -> Bool:
    """The copy writes byte ``index`` of the cell. L1: for each byte of each required cell, some copy does."""
    return byte_in(copy.target, cell.storage, cell.offset + index)
