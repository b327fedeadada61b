# SPDX-License-Identifier: Apache-2.0
"""What vLLM's connectors find around them: configs, an attention backend, the socket of a handshake, a log.

Stand-ins for an engine that is not there. They hold facts of the case and nothing that decides where bytes go.
"""

from __future__ import annotations

import importlib
import logging
import time
from typing import Any

from seat import Swallowed
from vllm_specs import Engine

CONNECTORS = "vllm.distributed.kv_transfer"
"""Name of the logger of all connectors."""


class Errors(logging.Handler):
    """Errors that connectors log, with what caused them. Whatever else logs errors has nothing to do with the case."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self.records.append(record)

    def failure(self) -> Swallowed | None:
        """The first error as an exception, one with a cause if there is any."""
        if not self.records:
            return None
        caused = [record for record in self.records if record.exc_info and record.exc_info[1] is not None]
        record = (caused or self.records)[0]
        cause = record.exc_info[1] if record.exc_info else None
        return Swallowed(record.getMessage(), cause, (record.pathname, record.lineno))


class Socket:
    """The handshake's socket: answers every question with the peer's payload, as its listener would."""

    def __init__(self, payload: Any) -> None:
        self._msgpack = importlib.import_module("msgspec.msgpack")
        self._payload = self._msgpack.encode(payload)

    def setsockopt(self, *args: Any) -> None:
        """Nothing waits here."""

    def send(self, message: bytes) -> None:
        """Whatever is asked, there is one rank to answer for."""

    def recv(self) -> bytes:
        """The payload alone, as older releases have it."""
        return bytes(self._payload)

    def recv_multipart(self) -> list[bytes]:
        """The payload and the peer's clock."""
        return [self._payload, self._msgpack.encode(time.perf_counter())]


class Facts:
    """What a config object holds.

    A release that asks for more is one that the probe does not know. That is said from here, so that it counts as the
    probe's failure and not as the target's.
    """

    def __init__(self, what: str, **facts: Any) -> None:
        self._what = what
        self.__dict__.update(facts)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"this release reads {name} of its {self._what}, which the probe does not provide")


def vllm_config(target: Any, engine: Engine, heads: int, number: int = 0) -> Any:
    """The part of a VllmConfig that connectors read. Model facts are the same for both sides: they serve one model.

    ``number`` sets the ports of engines on one host apart.
    """
    layouts = getattr(target.interface, "KVCacheLayout", None)
    return Facts(
        "config",
        kv_transfer_config=target.transfer_config(
            kv_connector="NixlConnector",
            kv_role="kv_both",
            kv_buffer_device="cpu",
            kv_connector_extra_config={"num_threads": 1},
        ),
        cache_config=Facts(
            "cache config",
            block_size=engine.configured_tokens,
            cache_dtype="auto",
            enable_prefix_caching=True,
            kv_cache_layout=engine.layout,
            get_resolved_kv_cache_layout=lambda: layouts[engine.layout],
            mamba_cache_mode="none",
            num_gpu_blocks_override=engine.cache_config.num_blocks,
            prefix_cache_retention_interval=None,
        ),
        model_config=Facts(
            "model config",
            use_mla=engine.use_mla,
            enable_sleep_mode=False,
            model="kvproof",
            dtype="uint8",
            is_hybrid=False,
            get_total_num_kv_heads=lambda: heads,
            get_num_kv_heads=lambda parallel: heads,
            get_head_size=lambda: 1,
            get_total_num_hidden_layers=lambda: 1,
        ),
        parallel_config=Facts(
            "parallel config",
            tensor_parallel_size=1,
            pipeline_parallel_size=1,
            prefill_context_parallel_size=1,
            decode_context_parallel_size=1,
            data_parallel_index=number,
        ),
        scheduler_config=Facts("scheduler config", disable_hybrid_kv_cache_manager=False),
        speculative_config=None,
        attention_config=Facts("attention config", hisparse_config=None),
    )


def stub_backend(engine: Engine) -> type:
    """An attention backend, of which connectors ask the name and the kernel pages that it takes."""
    halves = engine.split_kv and not engine.use_mla

    class Backend:
        @staticmethod
        def get_name() -> str:
            return "KVPROOF"

        @classmethod
        def full_cls_name(cls) -> str:
            return "kvproof.Backend"

        @staticmethod
        def is_mla() -> bool:
            return bool(engine.use_mla)

        @staticmethod
        def get_supported_kernel_block_sizes(*args: Any) -> list[int]:
            return sorted({engine.kernel_tokens, *engine.page_sizes})

        @classmethod
        def supports_block_size(cls, block_size: int) -> bool:
            return block_size in (engine.kernel_tokens, *engine.page_sizes)

        @staticmethod
        def get_kv_cache_shape(
            num_blocks: int, block_size: int, num_kv_heads: int, head_size: int, **options: Any
        ) -> tuple[int, ...]:
            # Blocks first; only the number of dimensions is looked at.
            heads = (2, num_kv_heads) if halves else (num_kv_heads,)
            return (num_blocks, *heads, block_size, head_size)

    return Backend
