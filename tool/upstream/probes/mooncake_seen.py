# SPDX-License-Identifier: Apache-2.0
"""What a pair of Mooncake workers did, as answers to the stand: batches as transfers, tables of regions, memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mooncake_engine import Written
from mooncake_wire import Reply, Wire


class Side(SimpleNamespace):
    """One built worker.

    ``engine``: it in the target's words. ``end``: its half of the connector, ``plan``: the cache config that its
    scheduler is given. ``before``: memory by storage. ``paired``: regions as the producer paired them for a request,
    neighbours in a row made one; older releases do not keep them.
    """


def transfers_of(sides: dict[str, Side]) -> list[dict[str, Any]]:
    """Every batch of the producers in kvproof's words."""
    by_session = {side.end.session: side for side in sides.values()}
    return [
        transfer
        for producer in sides.values()
        for batch in producer.end.engine.record.batches
        for transfer in parted(batch, producer.engine, by_session[batch.session].engine)
    ]


def parted(batch: Written, producer: Any, consumer: Any) -> list[dict[str, Any]]:
    """A batch as transfers between one kind of memory each: Mooncake takes both kinds in one batch."""
    found: dict[tuple[str, str], tuple[list[Any], list[Any]]] = {}
    for source, target, length in zip(batch.sources, batch.targets, batch.lengths, strict=True):
        kinds = memory_of(producer, source), memory_of(consumer, target)
        sources, targets = found.setdefault(kinds, ([], []))
        sources.append((source, length, 0, 0, 1))
        targets.append((target, length, 0, 0, 1))
    return [
        {
            "producer": producer.worker.name,
            "consumer": consumer.worker.name,
            "source": {"memory": kinds[0], "rows": sources},
            "target": {"memory": kinds[1], "rows": targets},
            "source_ids": list(range(len(sources))),
            "target_ids": list(range(len(targets))),
            "op": "WRITE",
        }
        for kinds, (sources, targets) in found.items()
    ]


def memory_of(engine: Any, address: int) -> str:
    """The kind of memory at an address; that of the first storage, where it lies in none."""
    kinds = {storage.name: storage.memory for storage in engine.worker.storages.values()}
    for name, memory in engine.storages.items():
        if 0 <= address - memory.data_ptr() < memory.numel():
            return str(kinds[name])
    return str(next(iter(kinds.values())))


def seen_worker(side: Side, folder: Path, number: int) -> dict[str, Any]:
    """What a worker registered, and its memory before and after."""
    files = {}
    for index, (name, memory) in enumerate(side.engine.storages.items()):
        before, after = f"{number}-{index}-before.bin", f"{number}-{index}-after.bin"
        side.before[name].tofile(folder / before)
        memory.numpy().tofile(folder / after)
        files[name] = before, after
    return {
        "bases": {name: memory.data_ptr() for name, memory in side.engine.storages.items()},
        "regions": regions_of(side),
        "registered": [
            (address, size, 0, memory_of(side.engine, address))
            for address, size in sorted(side.end.engine.record.memory.items())
        ],
        "memory": files,
    }


def regions_of(side: Side) -> list[dict[str, Any]]:
    """The worker's regions, or if they were paired for a request what became of them then.

    The target keeps no page count: it takes whatever ids a scheduler gives out.
    """
    engine = side.engine
    regions = []
    for region in side.paired or registered_of(side):
        group = engine.worker.groups[engine.worker.layers[region.layer_name].group]
        groups = getattr(region, "shared_group_ids", ()) or (region.group_index,)
        regions.append(
            {
                "address": region.base_addr,
                "bytes": region.kv_block_len,
                "stride": region.block_len,
                "pages": engine.worker.pools[group.pool].blocks * group.pages_per_block,
                "name": region.layer_name,
                "groups": [engine.groups[index] for index in groups],
            }
        )
    return regions


def registered_of(side: Side) -> list[Any]:
    """Regions as ``register_kv_caches`` leaves them, as many as the target makes of them when it plans."""
    worker = side.end.worker
    columns = [
        worker.kv_caches_base_addr,
        worker.block_len_per_layer,
        worker.kv_block_len_per_layer,
        worker.registered_layer_names,
        worker.registered_layer_indices,
        worker.registered_group_indices,
    ]
    if hasattr(worker, "region_shared_groups"):
        columns.append(worker.region_shared_groups)
    return list(worker._get_transfer_regions(*columns))


def replies(side: Side, wire: Wire) -> Iterator[tuple[Reply, str]]:
    """The producer's answers that report an error, and its words."""
    for reply in wire.replies:
        words = side.end.worker._xfer_resp_decoder.decode(reply.body).err_msg
        if words is not None:
            yield reply, words
