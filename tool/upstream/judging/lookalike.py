# SPDX-License-Identifier: Apache-2.0
"""Which known faulty rule leaves the consumer with just the same wrong bytes, whatever else was moved.

`cause.py` beside it asks for the same plan, byte by byte. A connector that also moves too much would never match: here
only what must arrive, and what must end zero, is compared.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kvproof.reference.derive import derive
from kvproof.reference.faults.registry import FAULTS
from kvproof.reference.rules import Refusal
from kvproof.spec.judge.lists import read_lists
from kvproof.spec.judge.plan_laws import owed_spans, required_spans
from kvproof.spec.judge.spans import BudgetExceeded, Spans
from kvproof.spec.place import Place
from kvproof.spec.plan import Plan
from kvproof.spec.scope import Covered, assess
from kvproof.spec.vocabulary import Case, Worker
from kvproof.upstream.judging.cause import Origins, extents, origins
from kvproof.upstream.judging.outcome import Outcome

ZERO = "zero"
"""In place of a source storage: the bytes are zeroed."""


def lookalike_of(case: Case, found: Outcome) -> str | None:
    """The name of the first known rule that does the same to all bytes that count; None if there is none."""
    scope = assess(case)
    if found.verdict not in ("corrupt", "hazard") or found.lists is None or not isinstance(scope, Covered):
        return None
    if scope.tokens is None:
        return None
    try:
        counting = Spans([*(target for _, target in required_spans(scope)), *owed_spans(scope)])
        seen = held(read_lists(case, found.lists).plan, counting)
        if seen == held(derive(case).plan, counting):
            return None
        for told in retold(case):
            for fault in FAULTS.values():
                try:
                    theirs = derive(told, fault.rules).plan
                except Refusal:
                    continue
                if held(theirs, counting) == seen:
                    return fault.name
    except BudgetExceeded:
        pass
    return None


def retold(case: Case) -> Iterator[Case]:
    """The case, and the same case in the words of a connector: same bytes and same needs, but the rules see it so."""
    for tables in (_as_given, _with_front, _clipped):
        for parts in (_as_given, _with_split_heads):
            yield replace(case, worker=tuple(parts(tables(worker)) for worker in case.worker))


def _as_given(worker: Worker) -> Worker:
    return worker


def _with_front(worker: Worker) -> Worker:
    """Tables list the null block where they leave the front out."""
    nulls = {pool.name: pool.null for pool in worker.pools}
    tables = dict(worker.tables)
    for group in worker.groups:
        table, null = worker.tables[group.name], nulls[group.pool]
        if table.first and null is not None:
            tables[group.name] = replace(table, first=0, blocks=(null,) * table.first + table.blocks)
    return replace(worker, tables=tables)


def _clipped(worker: Worker) -> Worker:
    """Of a window, vLLM's schedulers ship so many blocks as it has, and one: null ones among them, maybe."""
    worker = _with_front(worker)
    tables = dict(worker.tables)
    for group in worker.groups:
        table = tables[group.name]
        if group.window_tokens is not None and group.block_tokens is not None:
            kept = table.blocks[-(-(-group.window_tokens // group.block_tokens) + 1) :]
            tables[group.name] = replace(table, first=len(table.blocks) - len(kept) + table.first, blocks=kept)
    return replace(worker, tables=tables)


def _with_split_heads(worker: Worker) -> Worker:
    """Layers with heads are no replicated ones, on one rank either: to say so, the model gets a head more."""
    return replace(
        worker,
        layers=tuple(
            replace(layer, parts=tuple(replace(part, units=part.units + 1) for part in layer.parts))
            if any(part.units > 1 for part in layer.parts)
            else layer
            for layer in worker.layers
        ),
    )


def held(plan: Plan, counting: Spans) -> Origins:
    """What a plan puts into the bytes that count: where they come from, or ZERO."""
    zeroed: dict[str, list[Place]] = {}
    for zero in plan.zeroes:
        zeroed.setdefault(str(zero.storage), []).extend(counting.within(zero))
    zeroes = {(storage, ZERO, 0): extents(places) for storage, places in zeroed.items() if places}
    return origins(plan.copies, counting) | zeroes
