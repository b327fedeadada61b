# SPDX-License-Identifier: Apache-2.0
"""What a pair of NIXL workers was seen to do, as answers: regions, posted transfers, memory, zeroed bytes.

The workers' tables are private; each is read only if it is there, and named as not exposed otherwise.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from nixl_agents import Posted, Prepared, spans
from vllm_specs import SSM_KINDS

Record = dict[str, Any]


class Side(SimpleNamespace):
    """One built worker: its ``engine``, the target's ``config``, ``worker`` and ``agent``, and memory ``before``."""


def transfer_of(side: Side, post: Posted, sides: dict[str, Side]) -> Record:
    """One posted transfer in kvproof's words: source is the producer's memory, whoever asked."""
    owners = {other.agent.name: other for other in sides.values()}
    ends = [
        (owners[prepared.agent], prepared_list(side, prepared, owners[prepared.agent]), ids)
        for prepared, ids in ((post.local, post.local_ids), (post.remote, post.remote_ids))
    ]
    if post.op == "READ":
        ends.reverse()
    (producer, source, source_ids), (consumer, target, target_ids) = ends
    return {
        "producer": producer.engine.worker.name,
        "consumer": consumer.engine.worker.name,
        "source": source,
        "target": target,
        "source_ids": source_ids,
        "target_ids": target_ids,
        "op": post.op,
    }


def prepared_list(poster: Side, prepared: Prepared, owner: Side) -> Record:
    """A prepared list, with the sections that the poster put in it where that can be told."""
    listed: Record = {"memory": prepared.memory, "rows": prepared.rows}
    found = sections(poster.worker, owner.worker, sum(row[4] for row in prepared.rows))
    return listed if found is None else {**listed, "sections": found}


def sections(poster: Any, owner: Any, total: int) -> dict[str, tuple[int, int]] | None:
    """Ranges of descriptor ids: attention first, then a row for each slice of each state, then the replicated state.

    Rows of states count the owner's logical blocks, so the boundaries are found from the end.
    """
    if not getattr(poster, "_has_mamba", False):
        return {"attention": (0, total)}
    try:
        slices = len(poster._conv_decomp.local_conv_offsets) + 1
        layers = len(getattr(poster, "_ssm_region_indices", None) or poster.block_len_per_layer)
        blocks = owner._logical_num_blocks
    except AttributeError:
        return None
    replicated = blocks if getattr(poster, "_ple_region_index", None) is not None else 0
    attention = total - replicated - layers * slices * blocks
    if attention < 0:
        return None
    found = {"attention": (0, attention), "ssm": (attention, total - replicated)}
    return {**found, "replicated-ssm": (total - replicated, total)} if replicated else found


def seen_worker(side: Side, folder: Path, number: int) -> Record:
    """What a worker registered, and its memory before and after, in files of the folder."""
    regions, missing = regions_of(side)
    memory = {}
    for ordinal, (name, now) in enumerate(side.engine.storages.items()):
        files = f"{number}-{ordinal}-before.bin", f"{number}-{ordinal}-after.bin"
        side.before[name].tofile(folder / files[0])
        now.numpy().tofile(folder / files[1])
        memory[name] = files
    return {
        "bases": {name: now.data_ptr() for name, now in side.engine.storages.items()},
        "regions": regions,
        "registered": side.agent.registered,
        "memory": memory,
        "not_exposed": missing,
    }


def regions_of(side: Side) -> tuple[list[Record] | None, list[str]]:
    """The worker's table of regions, and what this release keeps no table of."""
    worker = side.worker
    missing: list[str] = []
    bases = worker.kv_caches_base_addr.get(worker.engine_id)
    bases = bases.get(worker.tp_rank) if isinstance(bases, dict) else None
    if not bases:
        return None, ["regions"]
    sizes = list(worker.block_len_per_layer)
    # A release without strides has pages that abut, one without counts as many pages everywhere.
    strides = exposed(worker, "block_stride_per_layer", missing) or sizes
    pages = exposed(worker, "region_num_blocks", missing) or [worker.num_blocks] * len(bases)
    names = exposed(worker, "region_names", missing) or [None] * len(bases)
    groups = addressing(side, len(bases), exposed(worker, "region_group_ids", missing))
    if not len(bases) == len(sizes) == len(strides) == len(pages) == len(names):
        return None, [*missing, "regions"]
    return [
        dict(zip(("address", "bytes", "stride", "pages", "name", "groups"), row, strict=True))
        for row in zip(bases, sizes, strides, pages, names, groups, strict=True)
    ], missing


def exposed(worker: Any, name: str, missing: list[str]) -> list[Any] | None:
    """A private table of the worker; where the release has none, its name joins what is missing."""
    found = getattr(worker, name, None)
    if found:
        return list(found)
    missing.append(name)
    return None


def addressing(side: Side, count: int, ids: list[int] | None) -> list[list[str]]:
    """For each region the groups whose block ids address it, by the connector's rules for descriptor ids."""
    engine, worker = side.engine, side.worker
    kinds = {name: engine.worker.groups[name].kind for name in engine.groups}
    if not getattr(worker, "_has_mamba", False):
        if ids is None or len(ids) != count or len(set(ids)) == 1:
            return [engine.groups] * count
        return [engine.groups if number < 0 else [engine.groups[number]] for number in ids]
    scratch = getattr(worker, "_scratch_region_indices", None)
    states = getattr(worker, "_ssm_region_indices", None) or range(count)
    replicated = getattr(worker, "_ple_region_index", None)

    def addresses(name: str, region: int) -> bool:
        if kinds[name] == "replicated-ssm":
            return bool(region == replicated)
        if kinds[name] in SSM_KINDS:
            return region in states
        return kinds[name] != "ring" or scratch is None or region in scratch

    return [[name for name in engine.groups if addresses(name, region)] for region in range(count)]


def zeroes_of(side: Side) -> list[Record]:
    """Runs of zero bytes. No byte was zero before, and none could be copied, so somebody wrote them."""
    found = []
    for memory in side.engine.storages.values():
        zero = np.flatnonzero(memory.numpy() == 0)
        for run in np.split(zero, np.flatnonzero(np.diff(zero) != 1) + 1) if zero.size else ():
            where = {"address": memory.data_ptr() + int(run[0]), "bytes": int(run.size)}
            found.append({"worker": side.engine.worker.name, **where})
    return found


def unexplained(side: Side, sides: dict[str, Side]) -> list[str]:
    """What neither the posted copies nor zeroes account for: pages that are reordered after they land, say."""
    expected = {name: before.copy() for name, before in side.before.items()}
    bases = {name: memory.data_ptr() for name, memory in side.engine.storages.items()}
    owners = {other.agent.name: other for other in sides.values()}
    for post in (post for other in sides.values() for post in other.agent.posted):
        near, far = (post.local, post.local_ids), (post.remote, post.remote_ids)
        (into, into_ids), (out, out_ids) = (near, far) if post.op == "READ" else (far, near)
        if into.agent != side.agent.name:
            continue
        for (target, size), (origin, _) in zip(spans(into.rows, into_ids), spans(out.rows, out_ids), strict=True):
            put(expected, bases, target, take(owners[out.agent], origin, size))
    notes = []
    for name, memory in side.engine.storages.items():
        now = memory.numpy()
        odd = int(np.count_nonzero((now != expected[name]) & (now != 0)))
        if odd:
            notes.append(f"{side.engine.worker.name}/{name}: {odd} B differ from what the posted transfers leave there")
    return notes


def take(side: Side, address: int, size: int) -> np.ndarray:
    """Bytes of a side as they were before the transfer; zeroes for memory that is not the case's."""
    for name, memory in side.engine.storages.items():
        offset = address - memory.data_ptr()
        if 0 <= offset and offset + size <= memory.numel():
            return np.asarray(side.before[name][offset : offset + size])
    return np.zeros(size, dtype=np.uint8)


def put(expected: dict[str, np.ndarray], bases: dict[str, int], address: int, data: np.ndarray) -> None:
    """Write bytes where they belong; nowhere if that is not the case's memory."""
    for name, memory in expected.items():
        offset = address - bases[name]
        if 0 <= offset and offset + data.size <= memory.size:
            memory[offset : offset + data.size] = data
