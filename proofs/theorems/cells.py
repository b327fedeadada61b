# SPDX-License-Identifier: Apache-2.0
"""Cells: where a state, and a unit of it, lies within its page."""

from __future__ import annotations

from typing import NamedTuple

from kvproof.proofs import assumed, worlds
from kvproof.proofs.claim import Instance, Theorem
from kvproof.proofs.lemmas.division import unique
from kvproof.proofs.lemmas.products import both_orders, not_negative, order, positive
from kvproof.proofs.source import Numbers, Source
from kvproof.spec import cells, wellformed
from kvproof.spec import place as places
from kvproof.spec.cells import Cell, PageView, PartView
from kvproof.spec.logic import Bool, Int, all_of, any_of, mod, negate
from kvproof.spec.place import Place

ORDERS = ("unit-major", "state-major")


class StateOf(NamedTuple):
    """A state of a layer."""

    view: PageView
    state: Int


class StateLiesInItsPage(Theorem[StateOf]):
    """A page's states follow each other, and a state's tokens never straddle two pages."""

    id = "P27"
    law = "alignment"

    def world(self, source: Source, variant: str) -> StateOf:
        return StateOf(worlds.side(source, "target").view, source.integer("cell.state"))

    def hypotheses(self, w: StateOf) -> list[Bool]:
        return [wellformed.sizes_positive(w.view)]

    def claim(self, w: StateOf) -> Bool:
        page, index = cells.page_ordinal(w.view, w.state), cells.state_in_page(w.view, w.state)
        tokens = w.view.tokens_per_state
        return all_of(
            w.state == page * w.view.states_per_page + index,
            w.state * tokens == page * w.view.page_tokens + index * tokens,
            0 <= index,
            index < w.view.states_per_page,
            0 <= index * tokens,
            index * tokens + tokens <= w.view.page_tokens,
        )

    def lemmas(self, w: StateOf) -> list[Instance]:
        view, tokens = w.view, w.view.tokens_per_state
        page, index = cells.page_ordinal(view, w.state), cells.state_in_page(view, w.state)
        rest = mod(mod(w.state * tokens, view.page_tokens), tokens)
        return [
            positive(view.states_per_page, tokens),
            unique(tokens, w.state, 0, page * view.states_per_page + index, rest),
            order(index, view.states_per_page, tokens),
            order(view.states_per_page, index, tokens),
            order(index, 0, tokens),
            not_negative(index, tokens),
        ]

    def example(self, variant: str) -> Numbers:
        return _EXAMPLE


class CellOf(NamedTuple):
    """A cell of a part of a page."""

    view: PageView
    part: PartView
    cell: Cell


class CellLiesInsideItsPage(Theorem[CellOf]):
    """A cell lies inside its part, and so inside its page, in each order of units."""

    id = "P12"
    law = "alignment"
    variants = ORDERS

    def world(self, source: Source, variant: str) -> CellOf:
        side = worlds.side(source, "target", variant)
        return CellOf(side.view, side.part, Cell(source.integer("cell.unit"), source.integer("cell.state")))

    def hypotheses(self, w: CellOf) -> list[Bool]:
        return [*assumed.page_layout(w.view, w.part), *assumed.unit_of(w.part, w.cell.unit)]

    def claim(self, w: CellOf) -> Bool:
        begin = cells.within_page(w.view, w.part, w.cell)
        end = begin + w.part.unit_bytes
        return all_of(
            w.part.start <= begin,
            end <= w.part.start + wellformed.part_bytes(w.view, w.part),
            0 <= begin,
            end <= w.view.page_bytes,
        )

    def lemmas(self, w: CellOf) -> list[Instance]:
        unit, index = w.cell.unit - w.part.first, cells.state_in_page(w.view, w.cell.state)
        states, units, size = w.view.states_per_page, w.part.count, w.part.unit_bytes
        inside = StateLiesInItsPage.at(StateOf(w.view, w.cell.state))
        if w.part.order == "unit-major":
            position, near = unit * states + index, [order(unit, units, states), not_negative(unit, states)]
        else:
            position, near = index * units + unit, [order(index, states, units), not_negative(index, units)]
        return [inside, *near, order(position, units * states, size), not_negative(position, size)]

    def example(self, variant: str) -> Numbers:
        return _EXAMPLE


class TwoCells(NamedTuple):
    """Two cells of one page, of one part or of two that lie end to end."""

    view: PageView
    first_part: PartView
    first: Cell
    second_part: PartView
    second: Cell
    case: str


class CellsOfAPageDoNotOverlap(Theorem[TwoCells]):
    """Two different cells of one page share no byte, in each order of units and across parts."""

    id = "P13"
    law = "single-writer"
    variants = (*ORDERS, "two parts")

    def world(self, source: Source, variant: str) -> TwoCells:
        order = "state-major" if variant == "state-major" else "unit-major"
        side = worlds.side(source, "target", order)
        other = worlds.part(source, "rival.part", "state-major") if variant == "two parts" else side.part
        first = Cell(source.integer("cell.unit"), source.integer("cell.state"))
        second = Cell(source.integer("other.unit"), source.integer("other.state"))
        return TwoCells(side.view, side.part, first, other, second, variant)

    def hypotheses(self, w: TwoCells) -> list[Bool]:
        both = [
            *assumed.page_layout(w.view, w.first_part),
            *assumed.page_layout(w.view, w.second_part),
            *assumed.unit_of(w.first_part, w.first.unit),
            *assumed.unit_of(w.second_part, w.second.unit),
        ]
        if w.case == "two parts":
            return [*both, w.first_part.start + wellformed.part_bytes(w.view, w.first_part) <= w.second_part.start]
        same_page = cells.page_ordinal(w.view, w.first.state) == cells.page_ordinal(w.view, w.second.state)
        different = any_of(negate(w.first.unit == w.second.unit), negate(w.first.state == w.second.state))
        return [*both, same_page, different]

    def claim(self, w: TwoCells) -> Bool:
        first = cells.within_page(w.view, w.first_part, w.first)
        second = cells.within_page(w.view, w.second_part, w.second)
        return places.disjoint(Place(0, first, w.first_part.unit_bytes), Place(0, second, w.second_part.unit_bytes))

    def lemmas(self, w: TwoCells) -> list[Instance]:
        if w.case == "two parts":
            inside = CellLiesInsideItsPage
            return [
                inside.at(CellOf(w.view, w.first_part, w.first)),
                inside.at(CellOf(w.view, w.second_part, w.second)),
            ]
        states, units = w.view.states_per_page, w.first_part.count
        index, other = (cells.state_in_page(w.view, cell.state) for cell in (w.first, w.second))
        unit, rival = w.first.unit - w.first_part.first, w.second.unit - w.first_part.first
        pages = [cells.page_ordinal(w.view, cell.state) for cell in (w.first, w.second)]
        if w.case == "unit-major":
            near, position, second = both_orders(unit, rival, states), unit * states + index, rival * states + other
        else:
            near, position, second = both_orders(index, other, units), index * units + unit, other * units + rival
        return [
            StateLiesInItsPage.at(StateOf(w.view, w.first.state)),
            StateLiesInItsPage.at(StateOf(w.view, w.second.state)),
            order(pages[0], pages[1], states),
            *near,
            *both_orders(position, second, w.first_part.unit_bytes),
        ]

    def example(self, variant: str) -> Numbers:
        return _EXAMPLE.but(rival__part__start=1536) if variant == "two parts" else _EXAMPLE


_EXAMPLE = Numbers(
    {
        "target.storage": 0,
        "target.offset": 0,
        "target.stride": 4096,
        "target.blocks": 50,
        "target.pages_per_block": 1,
        "target.first": 0,
        "target.count": 3,
        "target.cached_tokens": 0,
        "target.storage_bytes": 4096 * 50,
        "target.base": 0,
        "target.memory": 0,
        "page_bytes": 4000,
        "states_per_page": 32,
        "tokens_per_state": 2,
        "part.start": 0,
        "part.first": 4,
        "part.count": 4,
        "part.unit_bytes": 12,
        "rival.part.start": 0,
        "rival.part.first": 0,
        "rival.part.count": 8,
        "rival.part.unit_bytes": 8,
        "cell.unit": 5,
        "cell.state": 40,
        "other.unit": 6,
        "other.state": 50,
    },
    {"target.block": {(0,): 7, (1,): 8, (2,): 9}},
)
"""Pages of 64 tokens in states of two; units 4 to 7 of eight are held, then a part of whole 8-byte units."""
