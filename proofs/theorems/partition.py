# SPDX-License-Identifier: Apache-2.0
"""The source of a paired layer holds every unit that the target holds."""

from __future__ import annotations

from typing import NamedTuple

from kvproof.proofs import worlds
from kvproof.proofs.claim import Instance, Theorem
from kvproof.proofs.lemmas.products import both_orders, not_negative, order
from kvproof.proofs.source import Numbers, Source
from kvproof.reference import arithmetic
from kvproof.spec import place as places
from kvproof.spec import wellformed
from kvproof.spec.cells import PartView
from kvproof.spec.laws import partition
from kvproof.spec.logic import Bool, Int, all_of
from kvproof.spec.place import Place


class PairedParts(NamedTuple):
    """A part on both sides, and a unit."""

    source: PartView
    target: PartView
    unit: Int


class PairedPartsHoldEveryUnit(Theorem[PairedParts]):
    """Where parts are alike, the producer holds each unit that the consumer holds."""

    id = "P44"
    law = "partition"

    def world(self, source: Source, variant: str) -> PairedParts:
        first, second = (worlds.part(source, name) for name in ("source.part", "target.part"))
        return PairedParts(first, second, source.integer("unit"))

    def hypotheses(self, w: PairedParts) -> list[Bool]:
        return [wellformed.parts_alike(w.source, w.target)]

    def claim(self, w: PairedParts) -> Bool:
        return partition.unit_held(w.source, w.target, w.unit)

    def example(self, variant: str) -> Numbers:
        part = {"start": 0, "first": 4, "count": 4, "unit_bytes": 16}
        numbers = {f"{side}.part.{name}": value for side in ("source", "target") for name, value in part.items()}
        return Numbers({**numbers, "unit": 5})


class StateParts(NamedTuple):
    """Two parts of the page of a ssm layer, one after the other, and a block."""

    start: Int
    count: Int
    unit_bytes: Int
    other_count: Int
    other_unit_bytes: Int
    stride: Int
    block: Int
    other_block: Int


class PartsOfAStateAreApart(Theorem[StateParts]):
    """The regions of a ssm layer's parts, laid end to end by the reference, share no byte, whatever the blocks."""

    id = "P45"
    law = "single-writer"

    def world(self, source: Source, variant: str) -> StateParts:
        return StateParts(*[source.integer(name) for name in StateParts._fields])

    def hypotheses(self, w: StateParts) -> list[Bool]:
        second = arithmetic.next_part(w.start, arithmetic.part_bytes(w.count, w.unit_bytes))
        end = arithmetic.next_part(second, arithmetic.part_bytes(w.other_count, w.other_unit_bytes))
        return [
            0 <= w.start,
            0 < w.count,
            0 < w.unit_bytes,
            0 < w.other_count,
            0 < w.other_unit_bytes,
            end <= w.stride,
            0 <= w.block,
            0 <= w.other_block,
        ]

    def claim(self, w: StateParts) -> Bool:
        first = Place(0, w.start + w.block * w.stride, w.count * w.unit_bytes)
        begin = arithmetic.next_part(w.start, arithmetic.part_bytes(w.count, w.unit_bytes))
        second = Place(0, begin + w.other_block * w.stride, w.other_count * w.other_unit_bytes)
        return all_of(places.disjoint(first, second), begin == w.start + w.count * w.unit_bytes)

    def lemmas(self, w: StateParts) -> list[Instance]:
        return [
            *both_orders(w.block, w.other_block, w.stride),
            order(0, w.count, w.unit_bytes),
            order(0, w.other_count, w.other_unit_bytes),
            not_negative(w.block, w.stride),
        ]

    def example(self, variant: str) -> Numbers:
        return Numbers(dict(zip(StateParts._fields, (0, 4, 16, 2, 100, 300, 7, 8), strict=True)))
