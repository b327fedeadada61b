# SPDX-License-Identifier: Apache-2.0
"""Probe of vLLM's MooncakeConnector: real schedulers and workers of a producer and a consumer, on CPU, in one process.

The producer writes: what is captured is each batch that its worker hands to Mooncake's transfer engine.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")  # the wheel's own device has no driver here
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
# Seconds that a producer waits for a request it was asked for and has not finished: here, one that it never will.
os.environ.setdefault("VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT", "1")

import mooncake_engine
import seat
from mooncake_engine import LibraryEngine, RecordingEngine
from mooncake_library import lend_verbs
from mooncake_pair import End, Moved, Prompt, close, hand_over, stand_ins
from mooncake_seen import Side, replies, seen_worker, transfers_of
from mooncake_wire import Reply, place_in
from nixl_seen import zeroes_of
from seat import NotDriven, Unfinished
from vllm_around import Errors, stub_backend, vllm_config
from vllm_nixl import ROLES, far_tables, near_blocks, one_a_side
from vllm_reach import reach
from vllm_release import Release, ReleaseProbe, watched
from vllm_specs import Engine

CONNECTOR = "mooncake"
MODULE = "vllm.distributed.kv_transfer.kv_connector.v1.mooncake.mooncake_connector"


class Target(Release):
    """The release, with its MooncakeConnector."""

    def load(self) -> None:
        """Import it."""
        self.connector = importlib.import_module(MODULE)
        self.library = self.connector.TransferEngine


class Probe(ReleaseProbe):
    """Answers for vLLM's MooncakeConnector."""

    kind = Target

    def hello(self) -> seat.Answer:
        library = self.target.library is not None
        return {
            "answer": "hello",
            "project": "vllm",
            "version": self.target.version,
            "connectors": {CONNECTOR: ["fake", "real"] if library else ["fake"]},
            "nixl": None,
            "notes": ["real: Mooncake's transfer engine over TCP"] if library else ["Mooncake is not installed"],
        }

    def run(self, ask: dict[str, Any]) -> seat.Answer:
        target = self.target
        if ask["connector"] != CONNECTOR:
            raise NotDriven(f"this probe does not drive {ask['connector']}", "connector")
        if ask["nixl"] == "real" and target.library is None:
            raise NotDriven("Mooncake's transfer engine is not installed", "transfer engine")
        case = seat.filled(ask["case"])
        one_a_side(case)
        sides: dict[str, Side] = {}
        LibraryEngine.library = target.library
        engine = LibraryEngine if ask["nixl"] == "real" else RecordingEngine
        backend = stand_ins(target.connector, engine, lambda: stub_backend(next(reversed(sides.values())).engine))
        with watched("vllm") as errors, backend:
            try:
                return self._run(target, case, Path(ask["folder"]), sides, errors)
            finally:
                for side in sides.values():
                    if side.end is not None:
                        close(side.end)

    def _run(
        self, target: Target, case: SimpleNamespace, folder: Path, sides: dict[str, Side], errors: Errors
    ) -> seat.Answer:
        self.stage = "describe"
        engines = target.engines(case)
        heads = max(engine.heads for engine in engines)
        self.reached = reached(target, engines, [mooncake_config(target, engine, heads) for engine in engines])
        for engine in engines:
            take_smallest_block(engine)
            sides[engine.worker.name] = side = Side(engine=engine, end=None, paired=[])
            self._build(target, side, mooncake_config(target, engine, heads))
        notes = [note for engine in engines for note in engine.notes]
        if case.tokens is not None:
            self.stage = "transfer"
            producer, consumer = (next(s for s in sides.values() if s.engine.worker.role == role) for role in ROLES)
            prompt = prompt_of(target, case.tokens, producer, consumer.engine)
            moved = hand_over(target.connector, producer.end, consumer.end, prompt)
            for ours, theirs, _ in getattr(producer.end.worker, "_prepared_transfer_regions", {}).values():
                producer.paired, consumer.paired = ours, theirs
            refusal = self._refusal(moved, producer, errors)
            if refusal is not None:
                return refusal
            notes += [f"the producer replied: {words}" for _, words in replies(producer, moved.wire)]
        return {
            "answer": "observed",
            "workers": {name: seen_worker(side, folder, number) for number, (name, side) in enumerate(sides.items())},
            "transfers": transfers_of(sides),
            "reached": self.reached,
            "zeroes": [zero for side in sides.values() for zero in zeroes_of(side)],
            "notes": notes,
        }

    def _build(self, target: Target, side: Side, config: Any) -> None:
        engine, name = side.engine, side.engine.worker.name
        self.stage = f"build {name}"
        plan = side.plan = target.scheduler_config(engine)
        kind = target.connector.MooncakeConnectorWorker
        # Made in two steps, to have something to close if it refuses after it started its threads.
        side.end = End(target.connector.MooncakeConnectorScheduler(config, name, plan), kind.__new__(kind))
        side.end.worker.__init__(config, name, engine.cache_config)
        self.stage = f"register {name}"
        side.end.worker.register_kv_caches({layer: engine.caches[layer] for layer in planned_order(engine)})
        side.before = {storage: memory.numpy().copy() for storage, memory in engine.storages.items()}

    def _refusal(self, moved: Moved, producer: Side, errors: Errors) -> seat.Answer | None:
        """What came instead of a transfer that was wanted, if nothing was posted."""
        if producer.end.engine.record.batches or not any(moved.wanted):
            return None
        if moved.wire.error is not None:
            raise moved.wire.error
        for reply, words in replies(producer, moved.wire):
            return self._refused(reply, words)
        failure = errors.failure()
        if failure is not None:
            raise failure
        if not moved.received:
            raise Unfinished("the consumer waits on, and neither end says why")
        return None

    def _refused(self, reply: Reply, words: str) -> seat.Answer:
        assert self.tree is not None
        return {
            "answer": "refused",
            "stage": self.stage,
            "error": "error reply",
            "message": seat.clip(words),
            "place": place_in(self.tree, reply.place),
            "reached": self.reached,
        }


def prompt_of(target: Target, tokens: int, producer: Side, consumer: Engine) -> Prompt:
    """The case's request, with both block tables."""
    return Prompt(
        tokens=tokens,
        cached=min(table.cached_tokens or 0 for table in consumer.worker.tables.values()),
        table=far_tables(target, producer, tokens),
        blocks=target.manager.KVCacheBlocks(
            tuple(near_blocks(target, consumer, name, tokens) for name in consumer.groups)
        ),
    )


def take_smallest_block(engine: Engine) -> None:
    """Give the engine the block size that vLLM's engine core settles on, the smallest of its groups.

    The connector counts in it, where NIXL's takes the least common multiple. Groups without prefix cache do not count.
    """
    specs = [group.kv_cache_spec for group in engine.cache_config.kv_cache_groups]
    counted = [spec for spec in specs if getattr(spec, "prefix_cacheable", True)] or specs
    smallest = min(spec.block_size for spec in counted)
    if engine.kernel_tokens == engine.block_tokens:
        engine.kernel_tokens = smallest
    engine.block_tokens = smallest


def planned_order(engine: Engine) -> list[str]:
    """Layers in the order in which vLLM allocates caches, which the connector keeps: by group, and there by spec."""
    ordered: list[str] = []
    for group in engine.cache_config.kv_cache_groups:
        by_spec: dict[Any, list[str]] = {}
        for layer in group.layer_names:
            by_spec.setdefault(engine.specs[layer], []).append(layer)
        ordered += (layer for layers in by_spec.values() for layer in layers)
    return ordered


def mooncake_config(target: Target, engine: Engine, heads: int) -> Any:
    """The part of a VllmConfig that this connector reads."""
    config = vllm_config(target, engine, heads)
    config.kv_transfer_config = target.transfer_config(
        kv_connector="MooncakeConnector",
        kv_role="kv_" + engine.worker.role,
        engine_id=engine.worker.name,
        kv_connector_extra_config={"num_workers": 1, "mooncake_protocol": "tcp"},
    )
    config.parallel_config.data_parallel_rank_local = 0
    config.parallel_config.local_engines_only = False
    return config


def reached(target: Target, engines: list[Engine], configs: list[Any]) -> seat.Answer:
    """How far the geometry is the target's own. The connector itself prescribes a layout where not all is MLA."""
    for engine, config in zip(engines, configs, strict=True):
        asked = target.connector.MooncakeConnector.get_required_kvcache_layout(config)
        if asked not in (None, "HND", engine.layout):
            words = f"{engine.worker.name} has {engine.layout}; the connector asks for {asked} where not all is MLA"
            return {"tag": "synthetic", "words": [words], "flags": []}
    return reach(engines, configs)


if __name__ == "__main__":
    lend_verbs(Path.cwd())
    seat.serve(Probe(str(mooncake_engine.__file__)))
