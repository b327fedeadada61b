# SPDX-License-Identifier: Apache-2.0
"""One Mooncake producer and one consumer in this process, and a request that goes from one to the other.

Workers, schedulers and event loops are the target's. What stands in: the transfer engine (mooncake_engine.py), the
ZeroMQ sockets between the two (mooncake_wire.py), the HTTP server where producers announce themselves, and what asks
for a GPU or for the model's attention layers.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from mooncake_engine import LibraryEngine, RecordingEngine
from mooncake_wire import Wire
from seat import Unfinished

HOST = "127.0.0.1"
REQUEST = "request"
TRANSFER = "transfer"
SECONDS = 8.0
"""How long a request may take: milliseconds, or the second that a producer waits for one it will never finish."""

Engine = RecordingEngine | LibraryEngine


@dataclass
class End:
    """One engine: its scheduler's and its worker's half of the connector."""

    scheduler: Any
    worker: Any

    @property
    def session(self) -> str:
        """How the other engine addresses its memory."""
        return f"{self.worker.hostname}:{self.worker.rpc_port}"

    @property
    def engine(self) -> Engine:
        """What the worker takes for Mooncake's transfer engine."""
        return self.worker.engine  # type: ignore[no-any-return]


@contextlib.contextmanager
def stand_ins(target: ModuleType, engine: type[Engine], backend: Callable[[], Any]) -> Iterator[None]:
    """Whatever the connector's module asks for that is not here.

    ``backend``: the attention backend of the model whose worker is being built.
    """
    absent: dict[str, Any] = {
        "TransferEngine": engine,
        "get_ip": lambda: HOST,
        "get_tensor_model_parallel_rank": lambda: 0,
        "get_tensor_model_parallel_world_size": lambda: 1,
        "get_pp_group": lambda: SimpleNamespace(rank_in_group=0),
        "get_current_attn_backends": lambda *_: [backend()],
        "get_current_attn_backends_and_specs": lambda *_: ([backend()], [None]),
        "get_kv_cache_layout": lambda: "HND",
        "should_launch_bootstrap_server": lambda *_: False,
    }
    worker = target.MooncakeConnectorWorker
    with contextlib.ExitStack() as stack:
        for name, stand_in in absent.items():
            if hasattr(target, name):
                stack.enter_context(patch.object(target, name, stand_in))
        stack.enter_context(patch.object(type(target.current_platform), "set_device", lambda *_: None, create=True))
        stack.enter_context(patch.object(torch.accelerator, "current_device_index", lambda: 0))
        stack.enter_context(patch.object(worker, "_mooncake_sender_listener", _announced))
        # Its finaliser shuts down once more, when the stand-ins are long gone.
        worker.__del__ = lambda self: None
        yield


async def _announced(_: Any, ready: Any) -> None:
    """In place of listening and announcing oneself: ready at once."""
    ready.set()


def close(end: End) -> None:
    """End the threads of an engine, built to the end or not, and forget its memory."""
    with contextlib.suppress(AttributeError):
        end.worker.shutdown()
    for name in ("sender_loop", "receiver_loop"):
        loop = getattr(end.worker, name, None)
        if loop is not None:
            _end_loop(loop)
    if hasattr(end.worker, "engine"):
        end.engine.close()


def _end_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Stop a loop, which its thread leaves by itself then, and give back its descriptors."""
    until = time.monotonic() + SECONDS
    while loop.is_running() and time.monotonic() < until:
        loop.call_soon_threadsafe(loop.stop)
        time.sleep(0.001)
    if not loop.is_running():
        loop.close()


@dataclass(frozen=True)
class Prompt:
    """A request as the target has it.

    ``tokens`` exist on the producer and ``cached`` of them on the consumer. ``table``: the producer's block ids by
    cache group. ``blocks``: the consumer's, as the target's own KVCacheBlocks.
    """

    tokens: int
    cached: int
    table: tuple[list[int], ...]
    blocks: Any


@dataclass(frozen=True)
class Moved:
    """What a request came to: the messages, and the block ids that the consumer asked for, by transfer group.

    ``received``: the consumer waits for it no longer.
    """

    wire: Wire
    wanted: list[list[int]]
    received: bool


def hand_over(target: ModuleType, producer: End, consumer: End, prompt: Prompt) -> Moved:
    """Let the producer finish a prompt and the consumer load it."""
    _finish(target, producer, prompt)
    producer.worker.start_load_kv(producer.scheduler.build_connector_meta(None))
    _want(producer, consumer, prompt)
    loading = consumer.scheduler.build_connector_meta(None)
    # What the producers' HTTP server would have told the consumer.
    consumer.worker._remote_agents[producer.worker.engine_id] = {0: {0: "memory"}}
    consumer.worker._tp_size[producer.worker.engine_id] = 1
    wire = _wire(target, producer.worker)
    with patch.object(target, "make_zmq_socket", wire.dial):
        _wait(_load(consumer.worker, loading), consumer.worker.receiver_loop)
    _, received = consumer.worker.get_finished()
    return Moved(
        wire,
        wanted=next((pull.local_block_ids for pulls in loading.reqs_to_recv.values() for pull in pulls.values()), []),
        received=REQUEST in (received or ()),
    )


def _finish(target: ModuleType, producer: End, prompt: Prompt) -> None:
    """The prompt is computed: first it is scheduled, then its one token is out."""
    request = SimpleNamespace(
        request_id=REQUEST,
        status=target.RequestStatus.FINISHED_LENGTH_CAPPED,
        kv_transfer_params={"do_remote_decode": True, "transfer_id": TRANSFER},
    )
    producer.scheduler.update_state_after_alloc(request, None, 0)
    producer.worker.start_load_kv(producer.scheduler.build_connector_meta(None))
    producer.scheduler.request_finished(request, prompt.table)


def _want(producer: End, consumer: End, prompt: Prompt) -> None:
    """The consumer has found blocks for the prompt."""
    scheduler = consumer.scheduler
    # Some models have their last prompt token computed by the consumer: it is behind what the producer offers.
    lengths = (prompt.tokens, prompt.tokens + 1)
    length = next(n for n in lengths if scheduler._get_remote_prefill_token_count(n) == prompt.tokens)
    request = SimpleNamespace(
        request_id=REQUEST,
        prompt_token_ids=[0] * length,
        kv_transfer_params={
            "do_remote_prefill": True,
            "transfer_id": TRANSFER,
            "remote_engine_id": producer.worker.engine_id,
            "remote_bootstrap_addr": "memory",
        },
    )
    missing, _ = scheduler.get_num_new_matched_tokens(request, prompt.cached)
    scheduler.update_state_after_alloc(request, prompt.blocks, missing)


def _wire(target: ModuleType, worker: Any) -> Wire:
    async def serve(question: bytes, socket: Any) -> None:
        await worker.send_kv_to_decode(b"consumer", socket, worker._xfer_meta_decoder.decode(question))

    def apology(error: Exception) -> bytes:
        status = target.MooncakeXferResponseStatus.ERROR
        return bytes(worker._encoder.encode(target.MooncakeXferResponse(status=status, err_msg=str(error))))

    return Wire(worker.sender_loop, serve, apology)


async def _load(worker: Any, metadata: Any) -> None:
    """What ``start_load_kv`` starts, and its end."""
    await worker._start_load_kv(metadata.reqs_to_recv)
    await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))


def _wait(work: Any, loop: asyncio.AbstractEventLoop) -> None:
    """Run something in a worker's loop, to its end; Unfinished if that does not come."""
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        future.result(SECONDS)
    except TimeoutError:
        future.cancel()
        raise Unfinished(f"the request was not through after {SECONDS:g} s") from None
