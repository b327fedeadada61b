# SPDX-License-Identifier: Apache-2.0
"""L10 partition: the sources of a consumer together hold every unit it holds."""

from __future__ import annotations

from kvproof.spec.cells import PartView
from kvproof.spec.logic import Bool, Int, all_of, implies


def unit_held(source: PartView, target: PartView, unit: Int) -> Bool:
    """If the consumer holds the unit, this producer does. L10: some producer does."""
    needed = all_of(target.first <= unit, unit < target.first + target.count)
    return implies(needed, all_of(source.first <= unit, unit < source.first + source.count))
