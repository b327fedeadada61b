# SPDX-License-Identifier: Apache-2.0
"""Steps that make a case simpler, each in the world's own terms. What comes out may be ill-formed: the caller looks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import gcd
from typing import Any

from msgspec.structs import replace

from kvproof.spec.vocabulary import TOKEN_KINDS, Case, Group, Layer, Part, Request, Storage, Table, Worker

Step = Callable[[Case], Iterator[Case]]


def with_worker(case: Case, worker: Worker) -> Case:
    """The case with the worker of this name replaced."""
    return replace(case, worker=tuple(worker if old.name == worker.name else old for old in case.worker))


def with_layers(case: Case, change: Callable[[Layer], Layer | None], only: str | None = None) -> Case:
    """The case with every layer changed, or gone where ``change`` says None."""
    return replace(
        case,
        worker=tuple(
            replace(worker, layers=tuple(new for layer in worker.layers if (new := change(layer)) is not None))
            if only in (None, worker.name)
            else worker
            for worker in case.worker
        ),
    )


def with_table(case: Case, worker: Worker, name: str, table: Table) -> Case:
    """The case with one table replaced."""
    return with_worker(case, replace(worker, tables={**worker.tables, name: table}))


def keys(case: Case) -> list[str]:
    """All layer keys."""
    return list(dict.fromkeys(layer.match_key for worker in case.worker for layer in worker.layers))


def drop_request(case: Case) -> Iterator[Case]:
    """No request: tables alone."""
    if case.request is not None:
        workers = tuple(replace(worker, tables={}) for worker in case.worker)
        yield replace(case, request=None, worker=workers)


def drop_layers(case: Case) -> Iterator[Case]:
    """One layer less, on both sides."""
    yield from (_without(case, key) for key in keys(case))


def _without(case: Case, key: str) -> Case:
    return with_layers(case, lambda layer: None if layer.match_key == key else layer)


def drop_unused(case: Case) -> Iterator[Case]:
    """Groups without layers go, pools without groups, storages without layers."""
    workers = []
    for worker in case.worker:
        used = {layer.group for layer in worker.layers}
        groups = tuple(group for group in worker.groups if group.name in used)
        pools = {group.pool for group in groups}
        stored = {layer.storage for layer in worker.layers}
        workers.append(
            replace(
                worker,
                groups=groups,
                tables={name: table for name, table in worker.tables.items() if name in used},
                pools=tuple(pool for pool in worker.pools if pool.name in pools),
                storages=tuple(storage for storage in worker.storages if storage.name in stored),
            )
        )
    if tuple(workers) != case.worker:
        yield replace(case, worker=tuple(workers))


def page_tokens(group: Group) -> int:
    """Tokens in a page of an attention or sliding group."""
    return (group.block_tokens or 1) // group.pages_per_block


def fewer_tokens(case: Case) -> Iterator[Case]:
    """A shorter prompt, and no more cached than that."""
    if case.request is None:
        return
    tokens = case.request.tokens
    for fewer in dict.fromkeys((1, tokens // 2, tokens - 1)):
        if 0 < fewer < tokens:
            workers = tuple(_clipped(worker, fewer) for worker in case.worker)
            yield replace(case, request=Request(fewer), worker=workers)


def _clipped(worker: Worker, tokens: int) -> Worker:
    groups = {group.name: group for group in worker.groups}
    tables = {}
    for name, table in worker.tables.items():
        cached = table.cached_tokens
        if cached is not None and groups[name].kind in TOKEN_KINDS:
            page = page_tokens(groups[name])
            cached = min(cached, tokens // page * page)
        tables[name] = replace(table, cached_tokens=cached)
    return replace(worker, tables=tables)


def shorter_tables(case: Case) -> Iterator[Case]:
    """Fewer blocks listed; nothing cached."""
    for worker in case.worker:
        for group in worker.groups:
            table = worker.tables.get(group.name)
            if table is None:
                continue
            if table.cached_tokens is not None:
                yield with_table(case, worker, group.name, replace(table, cached_tokens=None))
                fewer = table.cached_tokens - page_tokens(group) if group.kind in TOKEN_KINDS else 1
                if 0 < fewer < table.cached_tokens:
                    yield with_table(case, worker, group.name, replace(table, cached_tokens=fewer))
            if group.kind in TOKEN_KINDS and table.blocks:
                yield with_table(case, worker, group.name, replace(table, blocks=table.blocks[:-1]))
                yield with_table(case, worker, group.name, replace(table, blocks=table.blocks[1:]))
                if table.first:
                    yield with_table(case, worker, group.name, replace(table, first=table.first - 1))
            elif table.live is not None:
                live = replace(table, blocks=table.blocks[table.live : table.live + 1], live=None)
                yield with_table(case, worker, group.name, live)


def smaller_pools(case: Case) -> Iterator[Case]:
    """Blocks numbered from 1 in the order of their old ids, no null block that nobody lists, no block to spare."""
    for worker in case.worker:
        for pool in worker.pools:
            names = [group.name for group in worker.groups if group.pool == pool.name]
            listed = {block for name in names if name in worker.tables for block in worker.tables[name].blocks}
            null = pool.null if pool.null in listed else None
            order = sorted(listed - {null})
            new = {block: number for number, block in enumerate(order, 1)} | ({null: 0} if null is not None else {})
            tables = {
                name: replace(table, blocks=tuple(new[block] for block in table.blocks)) if name in names else table
                for name, table in worker.tables.items()
            }
            size = len(order) + 1 if worker.tables else 2
            smaller = replace(pool, blocks=size, null=0 if null is not None else None)
            pools = tuple(smaller if old.name == pool.name else old for old in worker.pools)
            if (size, null is None) < (pool.blocks, pool.null is None) or (
                size == pool.blocks and tables != worker.tables
            ):
                yield with_worker(case, replace(worker, pools=pools, tables=tables))


def simpler_parts(case: Case) -> Iterator[Case]:
    """Fewer, smaller, plainer parts."""
    for key in keys(case):
        layer = next(layer for worker in case.worker for layer in worker.layers if layer.match_key == key)
        for parts in _simpler(layer.parts):
            yield _with_fields(case, key, parts=parts)


def _with_fields(case: Case, key: str, **fields: Any) -> Case:
    """The case with some fields of a layer set, on both sides."""
    return with_layers(case, lambda layer: replace(layer, **fields) if layer.match_key == key else layer)


def _simpler(parts: tuple[Part, ...]) -> Iterator[tuple[Part, ...]]:
    if parts:
        yield ()
    for index, part in enumerate(parts):
        before, after = parts[:index], parts[index + 1 :]
        if len(parts) > 1:
            yield before + after
        for plainer in (
            Part(part.name, 1),
            replace(part, units=1, first=0, count=1),
            replace(part, unit_bytes=1),
            replace(part, order="unit-major"),
        ):
            if plainer != part:
                yield (*before, plainer, *after)


def smaller_pages(case: Case) -> Iterator[Case]:
    """Shorter pages on both sides; one token a state."""
    for key in keys(case):
        layer = next(layer for worker in case.worker for layer in worker.layers if layer.match_key == key)
        for size in dict.fromkeys((1, layer.page_bytes // 2, layer.page_bytes - 1)):
            if 0 < size < layer.page_bytes:
                yield _with_fields(case, key, page_bytes=size)
        if layer.tokens_per_state > 1:
            yield _with_fields(case, key, tokens_per_state=1)


def one_token_pages(case: Case) -> Iterator[Case]:
    """All pages of so many tokens, everywhere, become pages of one."""
    sizes = {page_tokens(g) for worker in case.worker for g in worker.groups if g.kind in TOKEN_KINDS} - {1}
    for size in sorted(sizes):
        workers = tuple(_scaled(worker, size) for worker in case.worker)
        request = None if case.request is None else Request(-(-case.request.tokens // size))
        yield replace(case, worker=workers, request=request)


def _scaled(worker: Worker, size: int) -> Worker:
    scaled = {g.name for g in worker.groups if g.kind in TOKEN_KINDS and page_tokens(g) == size}
    groups = tuple(
        replace(g, block_tokens=g.pages_per_block, window_tokens=g.window_tokens and -(-g.window_tokens // size))
        if g.name in scaled
        else g
        for g in worker.groups
    )
    tables = {
        name: replace(table, cached_tokens=table.cached_tokens and table.cached_tokens // size)
        for name, table in worker.tables.items()
    }
    layers = tuple(replace(layer, tokens_per_state=1) if layer.group in scaled else layer for layer in worker.layers)
    return replace(worker, groups=groups, tables=tables, layers=layers)


def plainer_groups(case: Case) -> Iterator[Case]:
    """No retained tokens, a short ring, a block of one page fewer, no window on either side."""
    for worker in case.worker:
        for group in worker.groups:
            plainer: list[Group] = []
            if group.retained_tokens:
                plainer.append(replace(group, retained_tokens=0))
            if group.pages_per_block > 1:
                fewer = group.pages_per_block - 1
                plainer.append(replace(group, pages_per_block=fewer, block_tokens=page_tokens(group) * fewer))
            for new in plainer:
                groups = tuple(new if old.name == group.name else old for old in worker.groups)
                yield with_worker(case, replace(worker, groups=groups))
    if any(group.kind == "sliding" for worker in case.worker for group in worker.groups):
        yield replace(case, worker=tuple(_without_windows(worker) for worker in case.worker))
    rings = [g for worker in case.worker for g in worker.groups if g.kind == "ring" and g.block_tokens != 1]
    if rings:
        yield replace(case, worker=tuple(_short_rings(worker) for worker in case.worker))


def _without_windows(worker: Worker) -> Worker:
    groups = (
        replace(g, kind="attention", window_tokens=None, retained_tokens=0) if g.kind == "sliding" else g
        for g in worker.groups
    )
    return replace(worker, groups=tuple(groups))


def _short_rings(worker: Worker) -> Worker:
    groups = (replace(g, block_tokens=1) if g.kind == "ring" else g for g in worker.groups)
    return replace(worker, groups=tuple(groups))


def plainer_storages(case: Case) -> Iterator[Case]:
    """Nothing but VRAM; storages as short as their pages allow; views closer together, or in storages of their own."""
    for worker in case.worker:
        vram = tuple(replace(storage, memory="VRAM") for storage in worker.storages)
        if vram != worker.storages:
            yield with_worker(case, replace(worker, storages=vram))
        for storage in worker.storages:
            inside = [layer for layer in worker.layers if layer.storage == storage.name]
            yield from _closer(case, worker, storage, inside)
            if len(inside) > 1:
                for layer in inside:
                    yield _alone(case, worker, storage, layer)


def _closer(case: Case, worker: Worker, storage: Storage, inside: list[Layer]) -> Iterator[Case]:
    least = min((layer.offset for layer in inside), default=0)
    if least:
        yield _moved(case, worker, inside, lambda layer: replace(layer, offset=layer.offset - least))
    for one in inside:
        if one.offset:
            yield _moved(case, worker, [one], lambda layer: replace(layer, offset=layer.offset - 1))
            yield _moved(case, worker, [one], lambda layer: replace(layer, offset=0))
    strides = [layer.page_stride for layer in inside]
    unit = gcd(*strides) if strides else 0
    if unit > 1:
        # Every stride shrinks by the same share, so that pitches stay equal.
        for share in dict.fromkeys((1, unit // 2, unit - 1)):
            if 0 < share < unit:
                yield _narrowed(case, worker, inside, unit, share)
    if len(set(strides)) == 1:
        yield _moved(case, worker, inside, lambda layer: replace(layer, page_stride=layer.page_stride - 1))
    tight = _end(worker, inside)
    for size in dict.fromkeys((tight, max(tight, _rows_end(worker, inside)))):
        if 0 < size < storage.bytes:
            storages = tuple(replace(old, bytes=size) if old.name == storage.name else old for old in worker.storages)
            yield with_worker(case, replace(worker, storages=storages))


def _narrowed(case: Case, worker: Worker, some: list[Layer], unit: int, share: int) -> Case:
    return _moved(case, worker, some, lambda layer: replace(layer, page_stride=layer.page_stride // unit * share))


def _moved(case: Case, worker: Worker, some: Iterable[Layer], change: Callable[[Layer], Layer]) -> Case:
    names = {layer.name for layer in some}
    # Nothing of this kind may become negative or nothing; such a case is skipped by being the same.
    changed = [change(layer) if layer.name in names else layer for layer in worker.layers]
    if any(layer.offset < 0 or layer.page_stride < 1 for layer in changed):
        return case
    return with_worker(case, replace(worker, layers=tuple(changed)))


def _pages(worker: Worker, layer: Layer) -> int:
    group = next(group for group in worker.groups if group.name == layer.group)
    pool = next(pool for pool in worker.pools if pool.name == group.pool)
    return pool.blocks * group.pages_per_block


def _end(worker: Worker, inside: list[Layer]) -> int:
    ends = (x.offset + (_pages(worker, x) - 1) * x.page_stride + x.page_bytes for x in inside)
    return max(ends, default=1)


def _rows_end(worker: Worker, inside: list[Layer]) -> int:
    return max((_pages(worker, layer) * layer.page_stride for layer in inside), default=1)


def _alone(case: Case, worker: Worker, storage: Storage, layer: Layer) -> Case:
    taken = {old.name for old in worker.storages}
    name = next(f"own{number}" for number in range(len(taken) + 1) if f"own{number}" not in taken)
    new = Storage(name, _pages(worker, layer) * layer.page_bytes, storage.memory)
    own = replace(layer, storage=name, offset=0, page_stride=layer.page_bytes)
    layers = tuple(own if old.name == layer.name else old for old in worker.layers)
    return with_worker(case, replace(worker, storages=(*worker.storages, new), layers=layers))


def plainer_names(case: Case) -> Iterator[Case]:
    """The same layer names on both sides."""
    plain = with_layers(case, lambda layer: replace(layer, name=layer.match_key, key=None))
    if plain != case:
        yield plain


STEPS: tuple[Step, ...] = (
    drop_request,
    drop_layers,
    drop_unused,
    fewer_tokens,
    shorter_tables,
    one_token_pages,
    simpler_parts,
    plainer_groups,
    smaller_pages,
    smaller_pools,
    plainer_storages,
    plainer_names,
)
