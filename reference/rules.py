# SPDX-License-Identifier: Apache-2.0
"""The functions of the reference that a faulty rule may replace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kvproof.reference import folding, pairing, selection, zeroing
from kvproof.reference.side import Side
from kvproof.spec.tables import Region


class Refusal(Exception):
    """The rule refuses the pair, with a reason, before any byte moves."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Rules:
    """One way to decide what moves. The defaults are the lawful one."""

    register: Callable[[Side], tuple[Region, ...]] = folding.register
    address: pairing.Address = pairing.address
    pair: pairing.Pair = pairing.pair
    select: selection.Select = selection.select
    zero: zeroing.Zero = zeroing.zero


LAWFUL = Rules()
