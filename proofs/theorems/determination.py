# SPDX-License-Identifier: Apache-2.0
"""What the laws leave open: nothing about a required byte, up to replicas. And so: every byte arrives."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvproof.proofs import examples, worlds
from kvproof.proofs.claim import Instance, Theorem
from kvproof.proofs.source import Function, Numbers, Source
from kvproof.proofs.theorems.alignment import CopiesOfALayerAreAligned, CopiesOfOtherLayersTouchNothing, Rivals
from kvproof.proofs.theorems.cells import ORDERS
from kvproof.proofs.theorems.coverage import RequiredCellsAreCovered
from kvproof.proofs.worlds import Transfer
from kvproof.spec import cells
from kvproof.spec import place as places
from kvproof.spec.laws import alignment, coverage
from kvproof.spec.logic import Bool, Int, all_of, any_of, choose
from kvproof.spec.place import Place
from kvproof.spec.plan import Copy


@dataclass(frozen=True)
class AnyPlan:
    """A transfer, some copy of somebody else's plan for it, and a second producer's place of the same cell."""

    transfer: Transfer
    copy: Copy
    replica: Place
    case: str


class LawsDetermineTheSource(Theorem[AnyPlan]):
    """A copy that obeys alignment takes a required byte from where the reference does; or from a replica."""

    id = "P19"
    law = "alignment"
    variants = ("one holder", "two holders")

    def world(self, source: Source, variant: str) -> AnyPlan:
        number, w = source.integer, worlds.transfer(source)
        copied = number("copy.bytes")
        copy = Copy(
            Place(number("copy.source.storage"), number("copy.source.offset"), copied),
            Place(number("copy.target.storage"), number("copy.target.offset"), copied),
        )
        replica = Place(number("replica.storage"), number("replica.offset"), w.target.part.unit_bytes)
        return AnyPlan(w, copy, replica, variant)

    def hypotheses(self, w: AnyPlan) -> list[Bool]:
        transfer = w.transfer
        source, target = transfer.source.place(transfer.cell), transfer.target.place(transfer.cell)
        aligned = alignment.aligned(w.copy, source, target)
        if w.case == "two holders":
            aligned = any_of(aligned, alignment.aligned(w.copy, w.replica, target))
        return [
            *RequiredCellsAreCovered().hypotheses(transfer),
            *own_copy(transfer),
            coverage.byte_covered(w.copy, target, transfer.index),
            aligned,
        ]

    def claim(self, w: AnyPlan) -> Bool:
        transfer = w.transfer
        copy = transfer.copy(cells.page_ordinal(transfer.target.view, transfer.cell.state))
        same = all_of(
            w.copy.source.storage == copy.source.storage,
            w.copy.source.offset - w.copy.target.offset == copy.source.offset - copy.target.offset,
        )
        if w.case == "one holder":
            return same
        byte = transfer.target.place(transfer.cell).offset + transfer.index
        read = w.copy.source.offset + byte - w.copy.target.offset
        from_replica = all_of(w.copy.source.storage == w.replica.storage, read == w.replica.offset + transfer.index)
        return any_of(same, from_replica)

    def lemmas(self, w: AnyPlan) -> list[Instance]:
        return [RequiredCellsAreCovered.at(w.transfer), CopiesOfALayerAreAligned.at(own_page(w.transfer))]

    def example(self, variant: str) -> Numbers:
        # State 100 is token 36 of page 1: page id 21 of the producer, 31 of the consumer.
        copy = {
            "copy.source.storage": 0,
            "copy.source.offset": 21 * 64 + 30,
            "copy.target.storage": 1,
            "copy.target.offset": 31 * 64 + 30,
            "copy.bytes": 10,
            "replica.storage": 7,
            "replica.offset": 0,
        }
        known = examples.PADDED_TAIL
        return Numbers({**known.integers, **copy}, known.functions)


@dataclass(frozen=True)
class Memory:
    """A transfer, and the two memories: ``before(storage, byte)`` when it starts, ``after`` when it is done.

    ``writer`` is 0 if the last copy to write the byte is one of the layer's own, else it is one of the rival layer.
    """

    transfer: Transfer
    writer: Int
    before: Function
    after: Function
    rival: str


class EveryByteArrives(Theorem[Memory]):
    """After the transfer each byte of a required cell is the byte that the producer had there.

    Whichever copy wrote it last: any one of its own layer, or any of another layer. (No zero did: ``P41``.)
    """

    id = "P20"
    law = "alignment"
    variants = tuple(f"{order}, {rival}" for order in ORDERS for rival in CopiesOfOtherLayersTouchNothing.variants)

    def world(self, source: Source, variant: str) -> Memory:
        w, writer = worlds.transfer(source, variant), source.integer("writer")
        return Memory(w, writer, source.function("before", 2), source.function("after", 2), variant.split(", ")[1])

    def hypotheses(self, w: Memory) -> list[Bool]:
        transfer, copy = w.transfer, last_writer(w)
        target = transfer.target.place(transfer.cell)
        byte = target.offset + transfer.index
        return [
            *RequiredCellsAreCovered().hypotheses(transfer),
            *CopiesOfALayerAreAligned().hypotheses(transfer),
            *CopiesOfOtherLayersTouchNothing().hypotheses(Rivals(transfer, w.rival)),
            # W18: sources are stable, and the final value of a byte comes from one of its writes, here this one.
            places.byte_in(copy.target, target.storage, byte),
            w.after(target.storage, byte)
            == w.before(copy.source.storage, copy.source.offset + byte - copy.target.offset),
        ]

    def claim(self, w: Memory) -> Bool:
        cell, index = w.transfer.cell, w.transfer.index
        source, target = w.transfer.source.place(cell), w.transfer.target.place(cell)
        return w.after(target.storage, target.offset + index) == w.before(source.storage, source.offset + index)

    def lemmas(self, w: Memory) -> list[Instance]:
        return [
            CopiesOfALayerAreAligned.at(w.transfer),
            CopiesOfOtherLayersTouchNothing.at(Rivals(w.transfer, w.rival)),
        ]

    def example(self, variant: str) -> Numbers:
        known = examples.PADDED_TAIL.but(other=1, writer=0)
        return known.with_functions(before={(0, 21 * 64 + 36): 7}, after={(1, 31 * 64 + 36): 7})


def last_writer(w: Memory) -> Copy:
    """The copy that wrote the byte last."""
    own, rival = w.transfer.copy(w.transfer.other), w.transfer.rival_copy(w.transfer.other)

    def either(first: Place, second: Place) -> Place:
        mine = w.writer == 0
        return Place(
            choose(mine, first.storage, second.storage),
            choose(mine, first.offset, second.offset),
            choose(mine, first.bytes, second.bytes),
        )

    return Copy(either(own.source, rival.source), either(own.target, rival.target))


def own_copy(w: Transfer) -> list[Bool]:
    """What ``CopiesOfALayerAreAligned`` asks for of the copy that covers the cell."""
    return CopiesOfALayerAreAligned().hypotheses(own_page(w))


def own_page(w: Transfer) -> Transfer:
    """The transfer, the other page being that of the cell."""
    return replace(w, other=cells.page_ordinal(w.target.view, w.cell.state))
