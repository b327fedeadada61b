# SPDX-License-Identifier: Apache-2.0
"""Sections of a descriptor list: attention, then ssm, then replicated-ssm, each side by its own counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kvproof.proofs import examples
from kvproof.proofs.claim import Instance, Theorem
from kvproof.proofs.lemmas.prefix_sums import built, earlier_ends_first
from kvproof.proofs.lemmas.products import both_orders, not_negative, order
from kvproof.proofs.source import Function, Numbers, Source, listed
from kvproof.reference import arithmetic
from kvproof.spec.laws import descriptor_ids
from kvproof.spec.logic import Bool, Int, all_of


@dataclass(frozen=True)
class Sections:
    """One side's list: attention regions up to region ``regions``, then ssm rows, then replicated-ssm rows.

    A row of a ssm section counts ``blocks`` descriptors. Two ssm ids and one replicated-ssm id are looked at.
    """

    start: Function
    pages: Function
    regions: Int
    region: Int
    page: Int
    rows: Int
    blocks: Int
    row: Int
    block: Int
    other_row: Int
    other_block: Int
    replicated_rows: Int
    replicated_blocks: Int
    replicated_row: Int
    replicated_block: Int

    @property
    def ssm(self) -> Int:
        """First ssm id."""
        return self.start(self.regions)

    @property
    def replicated(self) -> Int:
        """First replicated-ssm id."""
        return arithmetic.state_descriptor_id(self.ssm, self.rows, self.blocks, 0)

    @property
    def end(self) -> Int:
        """First id after all sections."""
        return arithmetic.state_descriptor_id(self.replicated, self.replicated_rows, self.replicated_blocks, 0)


SECTION_FIELDS = [
    "regions",
    "region",
    "page",
    "rows",
    "blocks",
    "row",
    "block",
    "other_row",
    "other_block",
    "replicated_rows",
    "replicated_blocks",
    "replicated_row",
    "replicated_block",
]


def sections(source: Source, name: str) -> Sections:
    """The sections of one side."""
    numbers = [source.integer(f"{name}.{field}") for field in SECTION_FIELDS]
    return Sections(source.function(f"{name}.start"), source.function(f"{name}.pages"), *numbers)


class BothSections(NamedTuple):
    """The sections of both sides: each has its own counts."""

    source: Sections
    target: Sections


class SectionsNeverOverlap(Theorem[BothSections]):
    """On each side, by its own counts, attention, ssm and replicated-ssm ids lie in sections apart; ssm ids differ."""

    id = "P22"
    law = "descriptor-ids"

    def world(self, source: Source, variant: str) -> BothSections:
        return BothSections(sections(source, "source"), sections(source, "target"))

    def hypotheses(self, w: BothSections) -> list[Bool]:
        return [*counted(w.source), *counted(w.target)]

    def claim(self, w: BothSections) -> Bool:
        return all_of(self.apart(w.source), self.apart(w.target))

    def apart(self, w: Sections) -> Bool:
        """What holds on one side."""
        first = arithmetic.state_descriptor_id(w.ssm, w.row, w.blocks, w.block)
        second = arithmetic.state_descriptor_id(w.ssm, w.other_row, w.blocks, w.other_block)
        third = arithmetic.state_descriptor_id(w.replicated, w.replicated_row, w.replicated_blocks, w.replicated_block)
        begin = w.start(w.region)
        return all_of(
            descriptor_ids.id_in_range(arithmetic.descriptor_id(begin, w.page), begin, w.ssm),
            descriptor_ids.id_in_range(first, w.ssm, w.replicated),
            descriptor_ids.id_in_range(third, w.replicated, w.end),
            descriptor_ids.sections_apart(begin, w.ssm, w.ssm, w.replicated),
            descriptor_ids.sections_apart(begin, w.ssm, w.replicated, w.end),
            descriptor_ids.sections_apart(w.replicated, w.end, w.ssm, w.replicated),
            descriptor_ids.distinct(w.row, first, w.other_row, second),
            descriptor_ids.distinct(w.block, first, w.other_block, second),
        )

    def lemmas(self, w: BothSections) -> list[Instance]:
        return [*self.side(w.source), *self.side(w.target)]

    def side(self, w: Sections) -> list[Instance]:
        """The facts about one side."""
        return [
            earlier_ends_first(w.start, w.pages, w.region, w.regions),
            order(w.row, w.rows, w.blocks),
            not_negative(w.row, w.blocks),
            *both_orders(w.row, w.other_row, w.blocks),
            order(w.replicated_row, w.replicated_rows, w.replicated_blocks),
            not_negative(w.replicated_row, w.replicated_blocks),
            not_negative(w.rows, w.blocks),
        ]

    def example(self, variant: str) -> Numbers:
        values = dict(zip(SECTION_FIELDS, (2, 1, 20, 2, 40, 1, 7, 0, 8, 1, 40, 0, 3), strict=True))
        numbers = {f"{side}.{name}": value for side in ("source", "target") for name, value in values.items()}
        return Numbers(
            numbers,
            {
                "source.start": examples.uneven_start,
                "source.pages": examples.uneven,
                "target.start": examples.uneven_start,
                "target.pages": examples.uneven,
            },
        )


class StateRow(NamedTuple):
    """A uniform section: each region from ``regions`` on has ``blocks`` pages."""

    start: Function
    pages: Function
    regions: Int
    row: Int
    blocks: Int
    case: str


class StateIdsAreFlatIds(Theorem[StateRow]):
    """A state's id by the closed form is its flat id: a section's rows start at multiples of their page count.

    By induction over the row. The base is row 0; the step goes from ``row`` to the one after.
    """

    id = "P39"
    law = "descriptor-ids"
    variants = ("base", "step")

    def world(self, source: Source, variant: str) -> StateRow:
        regions, row, blocks = (source.integer(name) for name in ("regions", "row", "blocks"))
        return StateRow(source.function("start"), source.function("pages"), regions, row, blocks, variant)

    def hypotheses(self, w: StateRow) -> list[Bool]:
        if w.case == "base":
            return []
        region = w.regions + w.row
        return [self.agrees(w, w.row), w.pages(region) == w.blocks, *built(w.start, w.pages, region)]

    def claim(self, w: StateRow) -> Bool:
        if w.case == "base":
            return self.agrees(w, 0)
        return self.agrees(w, w.row + 1)

    def agrees(self, w: StateRow, row: Int) -> Bool:
        """Both ways to compute the row's ids agree (on block 0; the block is added alike)."""
        flat = arithmetic.descriptor_id(w.start(w.regions + row), 0)
        return arithmetic.state_descriptor_id(w.start(w.regions), row, w.blocks, 0) == flat

    def example(self, variant: str) -> Numbers:
        tables = {"start": listed((0, 100, 150, 200)), "pages": listed((100, 50, 50))}
        return Numbers({"regions": 1, "row": 1, "blocks": 50}, tables)


def counted(w: Sections) -> list[Bool]:
    """W20, and ids of things that are there."""
    return [
        0 <= w.region,
        w.region < w.regions,
        0 <= w.page,
        w.page < w.pages(w.region),
        *built(w.start, w.pages, w.region),
        0 <= w.row,
        w.row < w.rows,
        0 <= w.block,
        w.block < w.blocks,
        0 <= w.other_row,
        w.other_row < w.rows,
        0 <= w.other_block,
        w.other_block < w.blocks,
        0 <= w.replicated_row,
        w.replicated_row < w.replicated_rows,
        0 <= w.replicated_block,
        w.replicated_block < w.replicated_blocks,
    ]
