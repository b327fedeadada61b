# SPDX-License-Identifier: Apache-2.0
"""Probe of vLLM's NixlConnector: real schedulers and workers of a producer and a consumer, on CPU, in one process.

Nothing of vLLM is replaced but its surroundings: the config objects, the platform's answers, the socket of the
handshake and, if asked, NIXL. Schedulers and workers are driven as the engine's loop drives them, pull and push alike.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")  # the wheel's own device has no driver here
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("VLLM_SSM_CONV_STATE_LAYOUT", "DS")  # the connector insists on it for recurrent states
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import seat
from nixl_agents import FakeAgent, real_agent
from nixl_seen import Side, seen_worker, transfer_of, unexplained, zeroes_of
from seat import NotDriven, Unfinished
from vllm_around import CONNECTORS, Errors, Socket, stub_backend, vllm_config
from vllm_reach import order_of, reach
from vllm_release import Release, ReleaseProbe, watched
from vllm_requests import demoted
from vllm_specs import Engine

NIXL = "vllm.distributed.kv_transfer.kv_connector.v1.nixl"
MODES = {"nixl-pull": "Pull", "nixl-push": "Push"}
"""Connectors, and what the target's classes for them are called."""

ROLES = ("producer", "consumer")
REQUEST = "kvproof"
"""Id of the request on both sides: a push is matched by it."""

DEADLINE = 20.0
"""Seconds for a handshake and a transfer, each of which takes milliseconds."""


class Target(Release):
    """The release, with its NixlConnector."""

    def load(self) -> None:
        """Import it."""
        self.base = importlib.import_module(f"{NIXL}.base_worker")
        self.request = importlib.import_module("vllm.v1.request")

    def worker(self, connector: str) -> Any:
        """Class of the connector's workers."""
        return self._part(connector, "worker")

    def scheduler(self, connector: str) -> Any:
        """Class of the connector's schedulers."""
        return self._part(connector, "scheduler")

    def _part(self, connector: str, part: str) -> Any:
        mode = MODES[connector]
        module = importlib.import_module(f"{NIXL}.{mode.lower()}_{part}")
        return getattr(module, f"Nixl{mode}Connector{part.capitalize()}")


class Probe(ReleaseProbe):
    """Answers for vLLM's NixlConnector."""

    kind = Target

    def hello(self) -> seat.Answer:
        """Which release this is, and that both connectors are driven, with real NIXL where there is one."""
        ways, version = ["fake"], None
        with contextlib.suppress(ImportError):
            version = importlib.import_module("importlib.metadata").version("nixl")
            ways.append("real")
        return {
            "answer": "hello",
            "project": "vllm",
            "version": self.target.version,
            "connectors": dict.fromkeys(MODES, ways),
            "nixl": version,
        }

    def run(self, ask: dict[str, Any]) -> seat.Answer:
        """Build the workers of a case, let them move the request, say what they did."""
        target = self.target
        if ask["connector"] not in MODES:
            raise NotDriven(f"this probe does not drive {ask['connector']}", "connector")
        case = seat.filled(ask["case"])
        one_a_side(case)
        sides: dict[str, Side] = {}
        with watched(CONNECTORS) as errors:
            try:
                with surroundings(target, ask["nixl"], sides):
                    self._build(target, ask["connector"], case, sides)
                    if case.tokens is not None:
                        self._move(target, ask["connector"], case.tokens, sides, errors)
                    return observed(Path(ask["folder"]), sides, self.reached)
            finally:
                close(sides)

    def _build(self, target: Target, connector: str, case: SimpleNamespace, sides: dict[str, Side]) -> None:
        self.stage = "describe"
        engines = target.engines(case)
        heads = max(engine.heads for engine in engines)
        configs = [vllm_config(target, engine, heads, number) for number, engine in enumerate(engines)]
        self.stage = "plan"
        self.reached = demoted(reach(engines, configs), case)
        worker, scheduler = target.worker(connector), target.scheduler(connector)
        for engine, config in zip(engines, configs, strict=True):
            name = engine.worker.name
            side = sides[name] = Side(engine=engine, config=config, worker=None, agent=None)
            self.stage = f"build {name}"
            side.plan = target.scheduler_config(engine)
            side.scheduler = scheduler(config, name, side.plan)
            side.worker = worker(config, name, engine.cache_config)
            side.agent = side.worker.nixl_wrapper
            self.stage = f"register {name}"
            side.worker.register_kv_caches({layer: engine.caches[layer] for layer in order_of(engine, config)})
            side.before = {name: memory.numpy().copy() for name, memory in engine.storages.items()}

    def _move(self, target: Target, connector: str, tokens: int, sides: dict[str, Side], errors: Errors) -> None:
        producer, consumer = (next(s for s in sides.values() if s.engine.worker.role == role) for role in ROLES)
        self.stage = "request"
        offered, params = offer(target, producer, tokens)
        wanted = want(target, consumer, tokens, params)
        self.stage = "transfer"
        try:
            exchange(producer, consumer, offered, wanted, errors)
        except BaseException:
            if producer.agent.posted or consumer.agent.posted:
                self.stage = "finish"  # the bytes were on their way by then
            raise


def one_a_side(case: SimpleNamespace) -> None:
    """Refuse what takes several ranks."""
    for role in ROLES:
        found = [worker for worker in case.workers if worker.role == role]
        if len(found) > 1:
            raise NotDriven(f"{len(found)} {role}s; this probe drives one a side", "several workers a side")
        for worker in found:
            if any(list(ranks) != [0, 1] for ranks in (worker.tp, worker.pp, worker.context)):
                raise NotDriven(f"{worker.name} is one rank of several", "parallel ranks")


@contextlib.contextmanager
def surroundings(target: Target, nixl: str, sides: dict[str, Side]) -> Iterator[None]:
    """Stand-ins for what the target finds around it. They answer for the worker that is being built."""

    def engine() -> Engine:
        return next(reversed(sides.values())).engine

    @contextlib.contextmanager
    def socket(kind: Any, address: str) -> Iterator[Socket]:
        port = int(address.rpartition(":")[2])
        peer = next(side for side in sides.values() if side.scheduler.side_channel_port == port)
        yield Socket(peer.worker.xfer_handshake_metadata)

    stand_ins: dict[str, Any] = {
        "NixlWrapper": FakeAgent if nixl == "fake" else real_agent(),
        "get_tensor_model_parallel_rank": lambda: 0,
        "get_tensor_model_parallel_world_size": lambda: 1,
        "get_current_attn_backends": lambda *args, **options: [stub_backend(engine())],
        "get_current_attn_backends_and_specs": lambda *args, **options: ([stub_backend(engine())], [None]),
        "get_kv_cache_layout": lambda: "NHD" if engine().layout.endswith("NHC") else "HND",
        "zmq_ctx": socket,
    }
    if nixl == "fake":
        stand_ins |= {"nixl_agent_config": None, "check_nixl_version": lambda version: None}
    answers: dict[str, Any] = {
        # The worker would pin this process to one core of each node.
        "discover_numa_topology": lambda *args: [],
        "set_device": lambda *args: None,
        # The kind of all memory that is not on the host. There is no device; it is what the case calls VRAM.
        "get_nixl_memory_type": lambda *args: engine().device_memory,
    }
    with contextlib.ExitStack() as stack:
        for name, stand_in in stand_ins.items():
            # NIXL's names are looked up when they are used; the others are there or not, by release.
            if name in ("NixlWrapper", "nixl_agent_config") or hasattr(target.base, name):
                stack.enter_context(patch.object(target.base, name, stand_in, create=True))
        for name, stand_in in answers.items():
            stack.enter_context(patch.object(type(target.base.current_platform), name, stand_in, create=True))
        yield


def offer(target: Target, producer: Side, tokens: int) -> tuple[Any, Any]:
    """What the producer's scheduler tells its worker when the request is done, and the consumer by way of the proxy."""
    done = SimpleNamespace(
        request_id=REQUEST,
        kv_transfer_params={"do_remote_decode": True},
        status=target.request.RequestStatus.FINISHED_LENGTH_CAPPED,
        num_computed_tokens=tokens,
    )
    tables = far_tables(target, producer, tokens)
    producer.scheduler.update_state_after_alloc(done, target.manager.KVCacheBlocks(()), 0)
    params = producer.scheduler.request_finished(done, tables)[1]
    return producer.scheduler.build_connector_meta(SimpleNamespace()), params


def want(target: Target, consumer: Side, tokens: int, params: Any) -> Any:
    """What the consumer's scheduler tells its worker when the request has its blocks."""
    asked = SimpleNamespace(request_id=REQUEST, kv_transfer_params=params)
    held = tuple(near_blocks(target, consumer.engine, name, tokens) for name in consumer.engine.groups)
    missing = any(block.block_hash is None and not block.is_null for group in held for block in group)
    consumer.scheduler.update_state_after_alloc(asked, target.manager.KVCacheBlocks(held), tokens if missing else 0)
    return consumer.scheduler.build_connector_meta(SimpleNamespace())


def far_tables(target: Any, producer: Any, tokens: int) -> tuple[list[int], ...]:
    """A producer's block tables as they reach the connector.

    The target's scheduler cuts off blocks behind the computed tokens (allocated ahead for drafts, say).
    """
    listed = tuple(far_blocks(producer.engine, name) for name in producer.engine.groups)
    held = SimpleNamespace(kv_cache_config=producer.plan, get_block_ids=lambda _: listed)
    return target.manager.KVCacheManager.get_block_ids_for_computed_tokens(held, REQUEST, tokens)


def far_blocks(engine: Engine, name: str) -> list[int]:
    """A producer's block table; ordinals in front of the first listed block hold the null block."""
    table = engine.worker.tables[name]
    null = engine.worker.pools[engine.worker.groups[name].pool].null or 0
    return [null] * table.first + list(table.blocks)


def near_blocks(target: Any, engine: Engine, name: str, tokens: int) -> list[Any]:
    """A consumer's blocks as its cache manager holds them: cached ones have a hash, null ones say so."""
    group, table = engine.worker.groups[name], engine.worker.tables[name]
    null = engine.worker.pools[group.pool].null
    cached = table.cached_tokens or 0
    whole = cached // group.block_tokens if group.block_tokens and group.kind != "ring" else 0
    if cached >= tokens:
        whole = len(table.blocks) + table.first
    elif group.block_tokens and group.kind != "ring" and cached % group.block_tokens:
        reason = f"group {name} has {cached} cached tokens; the cache holds whole blocks of {group.block_tokens}"
        raise NotDriven(reason, "prefix inside a block")
    found = [block_of(target, null or 0, is_null=True, cached=False) for _ in range(table.first)]
    for ordinal, block in enumerate(table.blocks, table.first):
        found.append(block_of(target, block, is_null=block == null, cached=ordinal < whole and block != null))
    return found


def block_of(target: Any, number: int, *, is_null: bool, cached: bool) -> Any:
    """One block of a cache manager."""
    block = target.blocks.KVCacheBlock(number)
    block.is_null = is_null
    block._block_hash = b"cached" if cached else None
    return block


def exchange(producer: Side, consumer: Side, offered: Any, wanted: Any, errors: Errors) -> None:
    """Steps of both engines until the consumer has what it waits for. Raises Swallowed, Unfinished."""
    waited = {name for name, request in wanted.reqs_to_recv.items() if any(map(len, request.local_block_ids))}
    received: set[str] = set()
    until, pause = time.monotonic() + DEADLINE, 0.0005
    empty = type(wanted)
    for side, metadata in ((producer, offered), (consumer, wanted)):
        side.worker.start_load_kv(metadata)
    while True:
        received |= set(consumer.worker.get_finished()[1] or ())
        producer.worker.get_finished()
        # An error may stay in the log: the request then waits on, or goes on without its cache.
        if failure := errors.failure():
            raise failure
        if waited <= received and (waited or idle(consumer.worker)):
            return
        if time.monotonic() > until:
            raise Unfinished(f"the consumer has not received its blocks within {DEADLINE:g} s")
        time.sleep(pause)
        pause = min(0.02, pause * 2)
        # A handshake that ends in the background is picked up by the next step.
        for side in (producer, consumer):
            side.worker.start_load_kv(empty())


def idle(worker: Any) -> bool:
    """Whether a worker that waits for nothing has shaken hands and sent its notice."""
    return not worker._handshake_futures and worker._ready_requests.empty()


def observed(folder: Path, sides: dict[str, Side], reached: seat.Answer | None) -> seat.Answer:
    """Everything that was seen."""
    return {
        "answer": "observed",
        "workers": {name: seen_worker(side, folder, number) for number, (name, side) in enumerate(sides.items())},
        "transfers": [transfer_of(side, post, sides) for side in sides.values() for post in side.agent.posted],
        "reached": reached,
        "zeroes": [zero for side in sides.values() for zero in zeroes_of(side)],
        "notes": [note for side in sides.values() for note in (*side.engine.notes, *unexplained(side, sides))],
    }


def close(sides: dict[str, Side]) -> None:
    """Shut down workers and forget agents: the next case starts from nothing."""
    for side in sides.values():
        if side.worker is not None:
            with contextlib.suppress(Exception):
                side.worker.shutdown()
        if hasattr(side.agent, "forget"):
            side.agent.forget()
    sides.clear()
    FakeAgent.living.clear()


if __name__ == "__main__":
    seat.serve(Probe(str(inspect.getfile(FakeAgent))))
