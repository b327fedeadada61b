# SPDX-License-Identifier: Apache-2.0
"""Refuting a plan: for each law the solver looks for a cell, a byte, a copy that breaks its kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import z3

from kvproof.spec.cells import Cell
from kvproof.spec.laws.alignment import aligned, untouched
from kvproof.spec.laws.bounds import span_in_storage
from kvproof.spec.laws.confinement import byte_confined
from kvproof.spec.laws.coverage import byte_covered
from kvproof.spec.laws.economy import byte_useful, not_moved_twice
from kvproof.spec.laws.single_writer import not_also_zeroed, same_value
from kvproof.spec.laws.zeroing import byte_zeroed, page_owed, zero_spares
from kvproof.spec.logic import Bool, Int, all_of, any_of, choose, negate
from kvproof.spec.model.solve import BUDGET, Unknown, Values, solve
from kvproof.spec.model.terms import pick, pick_copy, pick_place
from kvproof.spec.model.world import TermLayer, TermWorld
from kvproof.spec.place import Place
from kvproof.spec.plan import Copy, Plan
from kvproof.spec.scope import Covered
from kvproof.spec.vocabulary import Law
from kvproof.spec.world import first_token_of

VARIABLES = ("layer", "part", "unit", "state", "ordinal", "index", "first", "second")
LAYER, PART, UNIT, STATE, ORDINAL, INDEX, FIRST, SECOND = (z3.Int(name) for name in VARIABLES)
CELL = Cell(UNIT, STATE)


class Violation(msgspec.Struct, frozen=True):
    """A law that the plan breaks, and where the solver found it broken.

    ``at`` has layer and part (their indices), unit, state, page ordinal, byte index, and the indices of one or two
    copies or zeroes; which of them mean something depends on the law.
    """

    law: Law
    at: Values


class Question(msgspec.Struct, frozen=True):
    """A case and a plan on terms."""

    world: TermWorld
    copies: Sequence[Copy]
    zeroes: Sequence[Place]

    def any_cell(self, wanted: Callable[[TermLayer, int], Bool]) -> Bool:
        """Some layer and part for which ``wanted`` holds."""
        return any_of(
            *(
                all_of(LAYER == number, PART == part, wanted(layer, part))
                for number, layer in enumerate(self.world.layers)
                for part in range(len(layer.target.parts))
            ),
            z3.BoolVal(False),
        )

    def known(self, layer: TermLayer, part: int) -> Bool:
        """The cell is required or cached."""
        return any_of(self.world.required(layer, part, CELL), self.world.cached(layer, part, CELL))


def refute(covered: Covered, plan: Plan, budget: int = BUDGET) -> tuple[Violation | Unknown, ...]:
    """The laws of L1–L5, L9 and L11 that the plan breaks. Empty: no counterexample exists."""
    world = TermWorld(covered)
    question = Question(world, world.copies(plan), world.zeroes(plan))
    found: list[Violation | Unknown] = []
    asked = {name: z3.Int(name) for name in VARIABLES}
    for law, broken in LAWS.items():
        answer = solve(law, broken(question), asked, budget)
        if isinstance(answer, Unknown):
            found.append(answer)
        elif answer is not None:
            found.append(Violation(law, answer))
    return tuple(found)


def _index(variable: Int, items: Sequence[object]) -> Bool:
    return all_of(0 <= variable, variable < len(items))


def _byte_of(place: Place) -> Bool:
    return all_of(0 <= INDEX, INDEX < place.bytes)


def uncovered(question: Question) -> Bool:
    """L1: a byte of a required cell that no copy writes."""

    def wanted(layer: TermLayer, part: int) -> Bool:
        cell = question.world.target(layer, part, CELL)
        missed = (negate(byte_covered(copy, cell, INDEX)) for copy in question.copies)
        return all_of(question.world.required(layer, part, CELL), _byte_of(cell), *missed)

    return question.any_cell(wanted)


def misaligned(question: Question) -> Bool:
    """L2: a copy that brings a required or cached cell anything else than its own bytes."""
    copy = pick_copy(FIRST, question.copies)

    def wanted(layer: TermLayer, part: int) -> Bool:
        source, target = question.world.source(layer, part, CELL), question.world.target(layer, part, CELL)
        held = question.world.sourced(layer, part, CELL)
        wrong = choose(held, negate(aligned(copy, source, target)), negate(untouched(copy, target)))
        return all_of(question.known(layer, part), wrong)

    return all_of(_index(FIRST, question.copies), question.any_cell(wanted))


def unconfined(question: Question) -> Bool:
    """L3: a byte written outside the request's own, uncached blocks."""
    writes = [*(copy.target for copy in question.copies), *question.zeroes]
    return _outside(question, writes)


def _outside(question: Question, writes: Sequence[Place]) -> Bool:
    write = pick_place(FIRST, writes)
    foreign = (negate(byte_confined(write, INDEX, extent)) for extent in question.world.allowed())
    return all_of(_index(FIRST, writes), _byte_of(write), *foreign)


def out_of_bounds(question: Question) -> Bool:
    """L4: a span that leaves its storage."""
    spans = [span for copy in question.copies for span in (copy.source, copy.target)] + list(question.zeroes)
    sizes = question.world.sizes
    span = pick_place(FIRST, spans)
    limit = pick(span.storage, list(sizes.values()), 0)
    return all_of(_index(FIRST, spans), negate(span_in_storage(span, limit)))


def two_values(question: Question) -> Bool:
    """L5: a byte of a required cell that two copies, or a copy and a zero, give different values."""
    first, second = pick_copy(FIRST, question.copies), pick_copy(SECOND, question.copies)
    zero = pick_place(SECOND, question.zeroes)

    def wanted(layer: TermLayer, part: int) -> Bool:
        cell = question.world.target(layer, part, CELL)
        byte = cell.offset + INDEX
        copied = all_of(_index(SECOND, question.copies), negate(same_value(first, second, cell.storage, byte)))
        zeroed = all_of(_index(SECOND, question.zeroes), negate(not_also_zeroed(first, zero, cell.storage, byte)))
        return all_of(question.world.required(layer, part, CELL), _byte_of(cell), any_of(copied, zeroed))

    return all_of(_index(FIRST, question.copies), question.any_cell(wanted))


def badly_zeroed(question: Question) -> Bool:
    """L9: a zero on a required or cached cell or on a foreign byte; a byte of an owed page left as it was."""
    return any_of(_struck(question), _outside(question, question.zeroes), _left(question))


def _struck(question: Question) -> Bool:
    zero = pick_place(FIRST, question.zeroes)

    def wanted(layer: TermLayer, part: int) -> Bool:
        spared = zero_spares(zero, question.world.target(layer, part, CELL))
        return all_of(question.known(layer, part), negate(spared))

    return all_of(_index(FIRST, question.zeroes), question.any_cell(wanted))


def _left(question: Question) -> Bool:
    found: list[Bool] = [z3.BoolVal(False)]
    for number, layer in enumerate(question.world.layers):
        if layer.view.by_token:
            page, table = layer.target.page, layer.target.table
            first = first_token_of(layer.view, question.world.tokens)
            owed = page_owed(page, table, ORDINAL, first, question.world.tokens)
            in_page = all_of(0 <= INDEX, INDEX < page.page_bytes)
            left = (negate(byte_zeroed(zero, page, table, ORDINAL, INDEX)) for zero in question.zeroes)
            found.append(all_of(LAYER == number, owed, in_page, *left))
    return any_of(*found)


def wasteful(question: Question) -> Bool:
    """L11: a useful byte of a group moved twice, or a byte of its blocks moved for nothing."""
    first, second = pick_copy(FIRST, question.copies), pick_copy(SECOND, question.copies)
    found: list[Bool] = [z3.BoolVal(False)]
    byte = first.target.offset + INDEX
    for group in question.world.consumer.worker.groups:
        useful = any_of(*(byte_useful(first, INDEX, e) for e in question.world.useful(group)), z3.BoolVal(False))
        extents = question.world.own(group, cached_too=True)
        own = any_of(*(byte_confined(first.target, INDEX, extent) for extent in extents), z3.BoolVal(False))
        twice = all_of(
            FIRST < SECOND,
            _index(SECOND, question.copies),
            negate(not_moved_twice(first, second, first.target.storage, byte)),
        )
        found.append(all_of(own, any_of(negate(useful), twice)))
    return all_of(_index(FIRST, question.copies), _byte_of(first.target), any_of(*found))


LAWS: dict[Law, Callable[[Question], Bool]] = {
    "coverage": uncovered,
    "alignment": misaligned,
    "confinement": unconfined,
    "bounds": out_of_bounds,
    "single-writer": two_values,
    "zeroing": badly_zeroed,
    "economy": wasteful,
}
