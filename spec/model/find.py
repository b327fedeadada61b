# SPDX-License-Identifier: Apache-2.0
"""Finding a plan: with the sources unknown, what the laws leave for each required byte; and whether that is all."""

from __future__ import annotations

import msgspec
import z3

from kvproof.spec.cells import Cell
from kvproof.spec.laws.alignment import aligned
from kvproof.spec.laws.bounds import span_in_storage
from kvproof.spec.laws.coverage import byte_covered
from kvproof.spec.logic import Bool, Int, all_of, any_of, choose, negate
from kvproof.spec.model.solve import BUDGET, Unknown, Values, solve
from kvproof.spec.model.terms import pick
from kvproof.spec.model.world import TermLayer, TermWorld
from kvproof.spec.place import Place
from kvproof.spec.plan import Copy, Plan
from kvproof.spec.scope import Covered
from kvproof.spec.world import NOWHERE

Byte = tuple[str, int]
"""Storage id and offset."""


class Unsolvable(msgspec.Struct, frozen=True):
    """The laws leave no source for the required bytes."""


class KnownCell(msgspec.Struct, frozen=True):
    """A required cell where it lies on both sides. Numbers, no terms."""

    source: Place
    target: Place


def find(covered: Covered, budget: int = BUDGET) -> dict[Byte, Byte] | Unsolvable | Unknown:
    """A source for each required byte, solved from L1, L2 and L4: one unknown copy of one byte for each of them."""
    world = TermWorld(covered)
    cells = required_cells(world)
    facts: list[Bool] = [z3.BoolVal(True)]
    asked: dict[str, Int] = {}
    wanted = [(cell, index) for cell in cells for index in range(cell.target.bytes)]
    for number, (cell, index) in enumerate(wanted):
        storage, offset = z3.Int(f"storage {number}"), z3.Int(f"offset {number}")
        asked |= {f"storage {number}": storage, f"offset {number}": offset}
        target = Place(cell.target.storage, cell.target.offset + index, 1)
        copy = Copy(Place(storage, offset, 1), target)
        facts.append(all_of(byte_covered(copy, cell.target, index), aligned(copy, cell.source, cell.target)))
        facts.append(source_exists(world, copy))
    answer = solve("find", all_of(*facts), asked, budget)
    if answer is None:
        return Unsolvable()
    return answer if isinstance(answer, Unknown) else _sources(world, cells, answer)


def source_exists(world: TermWorld, copy: Copy) -> Bool:
    """L4 of the source: one of the storages, and inside it."""
    limit = pick(copy.source.storage, list(world.sizes.values()), 0)
    return all_of(0 <= copy.source.storage, span_in_storage(copy.source, limit))


def _sources(world: TermWorld, cells: list[KnownCell], answer: Values) -> dict[Byte, Byte]:
    targets = [(cell.target.storage, cell.target.offset + i) for cell in cells for i in range(cell.target.bytes)]
    return {
        (world.names[storage], byte): (world.names[answer[f"storage {number}"]], answer[f"offset {number}"])
        for number, (storage, byte) in enumerate(targets)
    }


def required_cells(world: TermWorld) -> list[KnownCell]:
    """Every required cell, one solution of the model after the other."""
    found: list[KnownCell] = []
    for layer in world.layers:
        for part in range(len(layer.target.parts)):
            found.extend(_cells_of(world, layer, part))
    return found


def _cells_of(world: TermWorld, layer: TermLayer, part: int) -> list[KnownCell]:
    view, held = layer.target, layer.target.parts[part]
    states = range((view.table.first + view.table.count) * view.page.pages_per_block * view.page.states_per_page)
    found = []
    for state in states:
        for unit in range(held.first, held.first + held.count):
            cell = Cell(unit, state)
            # The table answers with terms; on numbers they simplify to numbers.
            if z3.is_true(z3.simplify(_truth(world.required(layer, part, cell)))):
                source, target = world.source(layer, part, cell), world.target(layer, part, cell)
                found.append(KnownCell(_number(source), _number(target)))
    return found


def _truth(condition: Bool) -> z3.BoolRef:
    return condition if isinstance(condition, z3.ExprRef) else z3.BoolVal(condition)


def _number(place: Place) -> Place:
    offset = place.offset if isinstance(place.offset, int) else z3.simplify(place.offset).as_long()
    return Place(place.storage, offset, place.bytes)


class Difference(msgspec.Struct, frozen=True):
    """A required byte for which the laws allow a source that is not the plan's."""

    target: Byte
    source: Byte


def differs(covered: Covered, plan: Plan, budget: int = BUDGET) -> Difference | Unknown | None:
    """Is there a required byte with a lawful source other than the one the plan's last copy gives it?

    The cell, the byte and the other source are all unknown to the solver. None: the laws determine the plan's sources.
    """
    world = TermWorld(covered)
    cell, index = Cell(z3.Int("unit"), z3.Int("state")), z3.Int("index")
    source = Place(z3.Int("storage"), z3.Int("offset"), 1)
    where, byte = z3.Int("target storage"), z3.Int("target byte")
    found: list[Bool] = [z3.BoolVal(False)]
    for layer in world.layers:
        for part in range(len(layer.target.parts)):
            place, origin = world.target(layer, part, cell), world.source(layer, part, cell)
            copy = Copy(source, Place(place.storage, place.offset + index, 1))
            theirs = _source_in(world, plan, Place(place.storage, place.offset + index, 1))
            other = any_of(negate(theirs.storage == source.storage), negate(theirs.offset == source.offset))
            found.append(
                all_of(
                    world.required(layer, part, cell),
                    world.sourced(layer, part, cell),
                    0 <= index,
                    index < place.bytes,
                    aligned(copy, origin, place),
                    source_exists(world, copy),
                    other,
                    where == place.storage,
                    byte == place.offset + index,
                )
            )
    asked = {"storage": source.storage, "offset": source.offset, "where": where, "byte": byte}
    answer = solve("differs", any_of(*found), asked, budget)
    if answer is None or isinstance(answer, Unknown):
        return answer
    return Difference(
        (world.names[answer["where"]], answer["byte"]), (world.names[answer["storage"]], answer["offset"])
    )


def _source_in(world: TermWorld, plan: Plan, target: Place) -> Place:
    """Where the plan's last copy to a byte takes it from; nowhere if there is none."""
    storage: Int = z3.IntVal(NOWHERE)
    offset: Int = z3.IntVal(NOWHERE)
    for copy in world.copies(plan):
        written = byte_covered(copy, target, 0)
        storage = choose(written, copy.source.storage, storage)
        offset = choose(written, copy.source.offset + target.offset - copy.target.offset, offset)
    return Place(storage, offset, 1)
