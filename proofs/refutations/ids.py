# SPDX-License-Identifier: Apache-2.0
"""Faulty descriptor ids, lists that do not pair, and a producer that does not hold what it should."""

from __future__ import annotations

from typing import NamedTuple

from kvproof.proofs import assumed, worlds
from kvproof.proofs.claim import Refutation
from kvproof.proofs.lemmas.prefix_sums import built
from kvproof.proofs.source import Source
from kvproof.proofs.theorems.folding import Folds, folds
from kvproof.proofs.theorems.partition import PairedParts
from kvproof.proofs.theorems.sections import BothSections, counted, sections
from kvproof.proofs.worlds import Transfer
from kvproof.reference import arithmetic
from kvproof.spec.laws import descriptor_ids, parity, partition
from kvproof.spec.logic import Bool, Int, all_of


class _FaultyIds(Refutation[BothSections]):
    """Ids of one side computed with a count of the other, or with too few counts."""

    law = "descriptor-ids"

    def world(self, source: Source, variant: str) -> BothSections:
        return BothSections(sections(source, "source"), sections(source, "target"))

    def hypotheses(self, w: BothSections) -> list[Bool]:
        return [*counted(w.source), *counted(w.target)]


class PeersSectionStart(_FaultyIds):
    """Ssm ids computed with the peer's section start lie in the own section."""

    id = "R20"

    def claim(self, w: BothSections) -> Bool:
        wrong = arithmetic.state_descriptor_id(w.source.ssm, w.target.row, w.target.blocks, w.target.block)
        return descriptor_ids.id_in_range(wrong, w.target.ssm, w.target.replicated)


class PeersBlockCount(_FaultyIds):
    """Ssm ids computed with the peer's block count are distinct."""

    id = "R21"

    def hypotheses(self, w: BothSections) -> list[Bool]:
        return [*super().hypotheses(w), w.source.rows == w.target.rows]

    def claim(self, w: BothSections) -> Bool:
        own, count = w.target, w.source.blocks
        first = arithmetic.state_descriptor_id(own.ssm, own.row, count, own.block)
        second = arithmetic.state_descriptor_id(own.ssm, own.other_row, count, own.other_block)
        return all_of(
            descriptor_ids.distinct(own.row, first, own.other_row, second),
            descriptor_ids.distinct(own.block, first, own.other_block, second),
        )


class UniformSectionStarts(_FaultyIds):
    """Sections keep apart if the ssm section starts at the number of regions times the page count of the first."""

    id = "R22"

    def hypotheses(self, w: BothSections) -> list[Bool]:
        own = w.target
        # Two attention regions, as the reference lists them, of page counts that may differ.
        two = [
            own.regions == 2,
            own.start(0) == 0,
            0 < own.pages(0),
            *built(own.start, own.pages, 0),
            *built(own.start, own.pages, 1),
        ]
        return [*super().hypotheses(w), *two]

    def claim(self, w: BothSections) -> Bool:
        own = w.target
        start = arithmetic.state_descriptor_id(0, own.regions, own.pages(0), 0)
        end = arithmetic.state_descriptor_id(start, own.rows, own.blocks, 0)
        return descriptor_ids.sections_apart(0, own.start(own.regions), start, end)


class ShorterDescriptors(Refutation[Folds]):
    """Pages of the same layer always make descriptors of one length, in the memory of their list."""

    id = "R25"
    law = "parity"
    variants = ("length", "source memory", "target memory")

    def world(self, source: Source, variant: str) -> Folds:
        return folds(source, variant)

    def hypotheses(self, w: Folds) -> list[Bool]:
        """All that the pairing rule asks for, but one thing."""
        source, target = w.source, w.target
        length = source.region.bytes == target.region.bytes
        memories = [side.own.memory == side.region.memory for side in (source, target)]
        positive = [0 < source.region.bytes, 0 < target.region.bytes]
        if w.case == "length":
            return [*positive, *memories]
        if w.case == "source memory":
            return [*positive, length, memories[1]]
        return [*positive, length, memories[0]]

    def claim(self, w: Folds) -> Bool:
        source, target = w.source, w.target
        return parity.descriptors_pair(
            source.region.bytes,
            source.region.memory,
            source.own.memory,
            target.region.bytes,
            target.region.memory,
            target.own.memory,
        )


class AllListedPagesPair(Refutation[Transfer]):
    """Both sides list equally many pages for one prompt."""

    id = "R38"
    law = "parity"

    def world(self, source: Source, variant: str) -> Transfer:
        return worlds.transfer(source, variant)

    def hypotheses(self, w: Transfer) -> list[Bool]:
        return [*assumed.paired(w), 0 < w.tokens]

    def claim(self, w: Transfer) -> Bool:
        source, target = w.source, w.target
        counts = [
            arithmetic.end_of_blocks(w.tokens, side.block_tokens, side.view.pages_per_block)
            for side in (source, target)
        ]
        return parity.counts_pair(*counts)


class FewerUnits(Refutation[PairedParts]):
    """A producer that holds as many units as the consumer holds the same ones."""

    id = "R26"
    law = "partition"

    def world(self, source: Source, variant: str) -> PairedParts:
        first, second = (worlds.part(source, name) for name in ("source.part", "target.part"))
        return PairedParts(first, second, source.integer("unit"))

    def hypotheses(self, w: PairedParts) -> list[Bool]:
        return [0 < w.source.count, w.source.count == w.target.count, 0 <= w.source.first, 0 <= w.target.first]

    def claim(self, w: PairedParts) -> Bool:
        return partition.unit_held(w.source, w.target, w.unit)


class PoolPage(NamedTuple):
    """A page of a block, and the pages per block of both sides."""

    source_pages_per_block: Int
    target_pages_per_block: Int
    block: Int
    page: Int
    other_block: Int
    other_page: Int


class PeersPagesPerBlock(Refutation[PoolPage]):
    """Page ids expanded with the peer's pages per block are distinct."""

    id = "R39"
    law = "descriptor-ids"

    def world(self, source: Source, variant: str) -> PoolPage:
        return PoolPage(*[source.integer(name) for name in PoolPage._fields])

    def hypotheses(self, w: PoolPage) -> list[Bool]:
        return [
            0 < w.source_pages_per_block,
            0 <= w.page,
            w.page < w.target_pages_per_block,
            0 <= w.other_page,
            w.other_page < w.target_pages_per_block,
        ]

    def claim(self, w: PoolPage) -> Bool:
        first = arithmetic.expand(w.block, w.source_pages_per_block, w.page)
        second = arithmetic.expand(w.other_block, w.source_pages_per_block, w.other_page)
        return descriptor_ids.distinct(w.block, first, w.other_block, second)
