# SPDX-License-Identifier: Apache-2.0
"""A simpler case made one that vLLM could meet: tables as its scheduler makes them, storages as its planner lays them.

The steps of the shrinker know no engine; what they yield would shrink to worlds that no user can get to.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import lcm

from msgspec.structs import replace

from kvproof.fuzzing.simplify import STEPS, Step, drop_unused
from kvproof.spec.cells import first_needed_token
from kvproof.spec.vocabulary import TOKEN_KINDS, Case, Group, Pool, Table, Worker
from kvproof.upstream.fuzzing.engines import Cache, Engine, Layout, Member, Team, place
from kvproof.upstream.fuzzing.tables import NULL


def refitted(step: Step) -> Step:
    """The step, each of its candidates refitted and laid out anew, or refitted alone; those that are simpler then."""

    def yields(case: Case) -> Iterator[Case]:
        before = weight(case)
        for candidate in step(case):
            fit = refit(candidate)
            if fit is not None:
                yield from (found for found in (laid_out(fit), fit) if weight(found) < before)

    return yields


def weight(case: Case) -> tuple[int, ...]:
    """What a simpler case has less of, the weightiest first. Without it, refitting could undo a step for ever."""
    workers = case.worker
    layers = [layer for worker in workers for layer in worker.layers]
    groups = [group for worker in workers for group in worker.groups]
    tables = [table for worker in workers for table in worker.tables.values()]
    storages = [storage for worker in workers for storage in worker.storages]
    parts = [part for layer in layers for part in layer.parts]
    return (
        len(layers),
        len(groups),
        case.request.tokens if case.request is not None else 0,
        sum(1 + (group.retained_tokens > 0) for group in groups if group.window_tokens is not None),
        sum(group.pages_per_block for group in groups),
        sum(group.block_tokens or 0 for group in groups),
        sum(table.cached_tokens or 0 for table in tables),
        sum(layer.page_bytes + layer.tokens_per_state for layer in layers),
        sum(1 + part.units + part.unit_bytes + (part.order != "unit-major") for part in parts),
        sum(pool.blocks for worker in workers for pool in worker.pools),
        sum(len(table.blocks) for table in tables),
        sum(layer.page_stride for layer in layers),
        sum(layer.offset for layer in layers),
        sum(storage.bytes for storage in storages),
        len(storages),
        sum(storage.memory == "DRAM" for storage in storages),
        sum(rank * block for table in tables for rank, block in enumerate(reversed(table.blocks), 1)),
    )


def refit(case: Case) -> Case | None:
    """The case with tables that a scheduler makes, and without what nothing uses.

    None where blocks run out, or a page has less than a byte for each of its tokens.
    """
    if any(not worker.layers for worker in case.worker):
        return None
    case = next(drop_unused(case), case)
    workers = []
    for worker in case.worker:
        fit = _refitted(worker, case.request.tokens if case.request is not None else None)
        if fit is None:
            return None
        workers.append(fit)
    return replace(case, worker=tuple(workers))


def laid_out(case: Case) -> Case:
    """The case with its storages laid out as a planner would."""
    workers = []
    for worker in case.worker:
        engine = _engine_of(worker)
        storages, layers = place(engine, {pool.name: pool.blocks for pool in worker.pools})
        names = {group.name: f"g{number}" for number, group in enumerate(worker.groups)}
        groups = tuple(replace(group, name=names[group.name]) for group in worker.groups)
        tables = {names[name]: table for name, table in worker.tables.items()}
        workers.append(replace(worker, storages=storages, layers=layers, groups=groups, tables=tables))
    return replace(case, worker=tuple(workers))


def _refitted(worker: Worker, tokens: int | None) -> Worker | None:
    groups = {group.name: group for group in worker.groups}
    for layer in worker.layers:
        group = groups[layer.group]
        if group.kind in TOKEN_KINDS and not layer.parts and layer.page_bytes < _page_tokens(group):
            return None
    pools = []
    for pool in worker.pools:
        taken = {block for group in worker.groups if group.pool == pool.name for block in _listed(worker, group)}
        pools.append(replace(pool, null=NULL) if pool.null is None and NULL not in taken else pool)
    worker = replace(worker, pools=tuple(pools))
    if tokens is None:
        return worker
    held = _held(worker, tokens)
    tables: dict[str, Table] = {}
    for pool in worker.pools:
        inside = [group for group in worker.groups if group.pool == pool.name]
        used = {block for group in inside for block in _listed(worker, group)}
        free = [block for block in range(1, pool.blocks) if block not in used]
        for group in inside:
            table = _fitted(worker, group, pool, tokens, held, free)
            if table is None:
                return None
            tables[group.name] = table
    return replace(worker, tables={group.name: tables[group.name] for group in worker.groups})


def _held(worker: Worker, tokens: int) -> dict[str, int | None]:
    """Cached tokens by group: whole blocks of all of them."""
    unit = lcm(*(group.block_tokens or 1 for group in worker.groups if group.kind in TOKEN_KINDS))
    held: dict[str, int | None] = {}
    for group in worker.groups:
        cached = worker.tables[group.name].cached_tokens
        held[group.name] = min(cached, tokens) // unit * unit or None if cached is not None else None
    return held


def _fitted(
    worker: Worker, group: Group, pool: Pool, tokens: int, held: dict[str, int | None], free: list[int]
) -> Table | None:
    """The group's table, whose blocks stay where they can. Takes what it needs from ``free``."""
    table = worker.tables[group.name]
    if group.kind not in TOKEN_KINDS or group.block_tokens is None:
        return replace(table, cached_tokens=held[group.name])
    given_up = 0
    if group.window_tokens is not None:
        first = first_needed_token(0, tokens, group.window_tokens, group.retained_tokens)
        given_up = max(0, int(first)) // group.block_tokens
    before = dict(enumerate(table.blocks, table.first))
    blocks = []
    for ordinal in range(-(-tokens // group.block_tokens)):
        block = before.get(ordinal, NULL)
        if ordinal < given_up and worker.role == "consumer":
            block = NULL
        if block == NULL and ordinal >= given_up:
            if not free:
                return None
            block = free.pop(0)
        blocks.append(block)
    front = next((index for index, block in enumerate(blocks) if block != NULL), len(blocks)) if table.first else 0
    if NULL in blocks[front:] and pool.null != NULL:
        return None
    return Table(tuple(blocks[front:]), front, held[group.name])


def _listed(worker: Worker, group: Group) -> tuple[int, ...]:
    table = worker.tables.get(group.name)
    return table.blocks if table is not None else ()


def _page_tokens(group: Group) -> int:
    return (group.block_tokens or 1) // group.pages_per_block


def _engine_of(worker: Worker) -> Engine:
    """The engine whose groups and layers these are, in the layout that they seem to be in."""
    teams = []
    for group in worker.groups:
        members = [
            Member(
                layer.name,
                Cache(
                    group.kind,
                    _page_tokens(group),
                    layer.page_bytes,
                    layer.parts,
                    layer.tokens_per_state,
                    group.window_tokens,
                ),
            )
            for layer in worker.layers
            if layer.group == group.name
        ]
        host = group.pool == "host"
        teams.append(Team(tuple(members), group.pages_per_block, host))
    return Engine(tuple(teams), _layout_of(worker))


def _layout_of(worker: Worker) -> Layout:
    for storage in worker.storages:
        inside = [layer for layer in worker.layers if layer.storage == storage.name]
        within = all(layer.offset + layer.page_bytes <= layer.page_stride for layer in inside)
        if len(inside) > 1 and within and any(layer.page_bytes < layer.page_stride for layer in inside):
            return "rows"
    return "own" if sum(storage.memory == "VRAM" for storage in worker.storages) > 1 else "layers"


REFITTED: tuple[Step, ...] = tuple(refitted(step) for step in STEPS)
"""The shrinker's steps, each result refitted."""
