# SPDX-License-Identifier: Apache-2.0
"""Plans spoilt in one place, as a connector might."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kvproof.fuzzing.source import Source
from kvproof.fuzzing.tags import storage_sizes
from kvproof.spec.place import Place
from kvproof.spec.plan import Copy, Plan
from kvproof.spec.scope import Covered
from kvproof.spec.world import WorkerView, storage_id

Mutation = Callable[[Source, Covered, Plan], Plan]


def mutate(source: Source, covered: Covered, plan: Plan) -> tuple[str, Plan]:
    """The plan with one change, and the name of the change. Most changes break a law, some are harmless."""
    options = list(ANYWHERE)
    if plan.copies:
        options += list(OF_COPIES)
    if len(plan.copies) > 1:
        options += list(OF_TWO)
    if plan.zeroes:
        options += list(OF_ZEROES)
    name = source.choice(options)
    return name, MUTATIONS[name](source, covered, plan)


def _pick(source: Source, items: Sequence[object]) -> int:
    return source.integer(0, len(items) - 1)


def _with(plan: Plan, index: int, *copies: Copy) -> Plan:
    """The plan with these copies in the place of one."""
    return Plan((*plan.copies[:index], *copies, *plan.copies[index + 1 :]), plan.zeroes)


def drop_copy(source: Source, _covered: Covered, plan: Plan) -> Plan:
    """Forget a copy."""
    return _with(plan, _pick(source, plan.copies))


def duplicate(source: Source, _covered: Covered, plan: Plan) -> Plan:
    """Copy a span twice."""
    index = _pick(source, plan.copies)
    return _with(plan, index, plan.copies[index], plan.copies[index])


def shift_source(source: Source, _covered: Covered, plan: Plan) -> Plan:
    """Read a few bytes further along, or before."""
    index = _pick(source, plan.copies)
    copy = plan.copies[index]
    return _with(plan, index, Copy(_shifted(source, copy.source), copy.target))


def shift_target(source: Source, _covered: Covered, plan: Plan) -> Plan:
    """Write a few bytes further along, or before."""
    index = _pick(source, plan.copies)
    copy = plan.copies[index]
    return _with(plan, index, Copy(copy.source, _shifted(source, copy.target)))


def _shifted(source: Source, place: Place) -> Place:
    shift = source.choice([1, 2, place.bytes, 2 * place.bytes, -1, -place.bytes])
    return Place(place.storage, max(0, place.offset + shift), place.bytes)


def shorten(source: Source, _covered: Covered, plan: Plan) -> Plan:
    """Copy all but the first or last bytes of a span."""
    index = _pick(source, plan.copies)
    copy = plan.copies[index]
    length = source.integer(1, copy.target.bytes)
    skip = source.integer(0, copy.target.bytes - length)
    return _with(plan, index, _slice(copy, skip, length))


def split(source: Source, _covered: Covered, plan: Plan) -> Plan:
    """Copy a span in two pieces, which may overlap: harmless but for bytes moved twice."""
    index = _pick(source, plan.copies)
    copy = plan.copies[index]
    first = source.integer(1, copy.target.bytes)
    skip = source.integer(0, first if first < copy.target.bytes else first - 1)
    return _with(plan, index, _slice(copy, 0, first), _slice(copy, skip, copy.target.bytes - skip))


def lengthen(source: Source, _covered: Covered, plan: Plan) -> Plan:
    """Copy a few bytes more."""
    index = _pick(source, plan.copies)
    return _with(plan, index, _slice(plan.copies[index], 0, plan.copies[index].target.bytes + source.integer(1, 3)))


def _slice(copy: Copy, skip: int, length: int) -> Copy:
    return Copy(
        Place(copy.source.storage, copy.source.offset + skip, length),
        Place(copy.target.storage, copy.target.offset + skip, length),
    )


def swap_sources(source: Source, _covered: Covered, plan: Plan) -> Plan:
    """Two copies read each other's source."""
    first = _pick(source, plan.copies)
    second = (first + source.integer(1, len(plan.copies) - 1)) % len(plan.copies)
    one, two = plan.copies[first], plan.copies[second]
    swapped = _with(plan, first, Copy(_as_long(two.source, one), one.target))
    return _with(swapped, second, Copy(_as_long(one.source, two), two.target))


def _as_long(place: Place, copy: Copy) -> Place:
    return Place(place.storage, place.offset, copy.target.bytes)


def two_sources(source: Source, _covered: Covered, plan: Plan) -> Plan:
    """A copy's target is written from another's source too."""
    first = _pick(source, plan.copies)
    second = (first + source.integer(1, len(plan.copies) - 1)) % len(plan.copies)
    one, two = plan.copies[first], plan.copies[second]
    return _with(plan, first, one, Copy(_as_long(two.source, one), one.target))


def zero_received(source: Source, _covered: Covered, plan: Plan) -> Plan:
    """Zero what a copy brought."""
    return Plan(plan.copies, (*plan.zeroes, plan.copies[_pick(source, plan.copies)].target))


def drop_zero(source: Source, _covered: Covered, plan: Plan) -> Plan:
    """Forget a zero."""
    index = _pick(source, plan.zeroes)
    return Plan(plan.copies, (*plan.zeroes[:index], *plan.zeroes[index + 1 :]))


def resize_zero(source: Source, _covered: Covered, plan: Plan) -> Plan:
    """Zero more than owed, before or behind, or less."""
    index = _pick(source, plan.zeroes)
    zero = plan.zeroes[index]
    before, behind = source.integer(0, 2), source.integer(-1, 2)
    start = max(0, zero.offset - before)
    length = max(1, zero.offset + zero.bytes + behind - start)
    return Plan(plan.copies, (*plan.zeroes[:index], Place(zero.storage, start, length), *plan.zeroes[index + 1 :]))


def out_of_bounds(source: Source, covered: Covered, plan: Plan) -> Plan:
    """A copy reads or writes past the end of its storage."""
    index = _pick(source, plan.copies)
    copy = plan.copies[index]
    sizes = storage_sizes(covered)
    over = source.integer(0, copy.target.bytes - 1)
    if source.chance(50):
        end = Place(copy.source.storage, max(0, sizes[copy.source.storage] - over), copy.source.bytes)
        return _with(plan, index, Copy(end, copy.target))
    end = Place(copy.target.storage, max(0, sizes[copy.target.storage] - over), copy.target.bytes)
    return _with(plan, index, Copy(copy.source, end))


def stray_copy(source: Source, covered: Covered, plan: Plan) -> Plan:
    """One copy more, from anywhere to anywhere."""
    origin, goal = _anywhere(source, covered.producer), _anywhere(source, covered.consumer)
    length = min(origin.bytes, goal.bytes)
    copy = Copy(Place(origin.storage, origin.offset, length), Place(goal.storage, goal.offset, length))
    return Plan((*plan.copies, copy), plan.zeroes)


def stray_zero(source: Source, covered: Covered, plan: Plan) -> Plan:
    """One zero more, anywhere on the consumer."""
    return Plan(plan.copies, (*plan.zeroes, _anywhere(source, covered.consumer)))


def wrong_side(source: Source, covered: Covered, plan: Plan) -> Plan:
    """One copy more, into the producer's own memory."""
    place = _anywhere(source, covered.producer)
    return Plan((*plan.copies, Copy(place, place)), plan.zeroes)


def _anywhere(source: Source, worker: WorkerView) -> Place:
    """A few bytes of a worker."""
    storage = source.choice(worker.worker.storages)
    length = source.integer(1, min(4, storage.bytes))
    return Place(storage_id(worker.name, storage.name), source.integer(0, storage.bytes - length), length)


ANYWHERE: dict[str, Mutation] = {"stray copy": stray_copy, "stray zero": stray_zero, "wrong side": wrong_side}
OF_COPIES: dict[str, Mutation] = {
    "drop copy": drop_copy,
    "duplicate": duplicate,
    "shift source": shift_source,
    "shift target": shift_target,
    "shorten": shorten,
    "lengthen": lengthen,
    "split": split,
    "zero received": zero_received,
    "out of bounds": out_of_bounds,
}
OF_TWO: dict[str, Mutation] = {"swap sources": swap_sources, "two sources": two_sources}
OF_ZEROES: dict[str, Mutation] = {"drop zero": drop_zero, "resize zero": resize_zero}
MUTATIONS: dict[str, Mutation] = {**ANYWHERE, **OF_COPIES, **OF_TWO, **OF_ZEROES}
