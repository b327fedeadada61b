# SPDX-License-Identifier: Apache-2.0
"""A release of vLLM inside this process: its modules, and what every probe of it needs around a case."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import seat
from vllm_around import Errors
from vllm_specs import Engine, build_engine


class Release:
    """The modules of the release, imported once. A probe's own ones are imported by ``load``."""

    def __init__(self) -> None:
        affinity = os.sched_getaffinity(0)
        self.vllm = importlib.import_module("vllm")
        self.tree = Path(str(self.vllm.__file__)).parent.parent  # as tracebacks have it: links are not resolved
        self._on_cpu()
        self.load()
        self.interface = importlib.import_module("vllm.v1.kv_cache_interface")
        self.utils = importlib.import_module("vllm.distributed.kv_transfer.kv_connector.utils")
        self.manager = importlib.import_module("vllm.v1.core.kv_cache_manager")
        self.blocks = importlib.import_module("vllm.v1.core.kv_cache_utils")
        self.transfer_config = importlib.import_module("vllm.config").KVTransferConfig
        os.sched_setaffinity(0, affinity)

    def load(self) -> None:
        """Import the connector's modules."""
        raise NotImplementedError

    def _on_cpu(self) -> None:
        platforms = importlib.import_module("vllm.platforms")
        if getattr(platforms.current_platform, "device_type", None) != "cpu":
            # Older releases do not look at VLLM_TARGET_DEVICE when they run.
            platforms._current_platform = importlib.import_module("vllm.platforms.cpu").CpuPlatform()
            platforms.current_platform = platforms._current_platform  # type: ignore[attr-defined]

    @property
    def version(self) -> str:
        """The release."""
        return str(self.vllm.__version__)

    def engines(self, case: SimpleNamespace) -> list[Engine]:
        """The workers of a case as this release gets them."""
        # The cache of a recurrent state is a (conv, temporal) pair in some releases; attention's has K and V halves.
        paired = hasattr(self.utils.TransferTopology, "get_transfer_cache_regions")
        halved = hasattr(self.utils.TransferTopology, "split_k_and_v")
        return [build_engine(worker, self.interface, not paired, halved) for worker in case.workers]

    def scheduler_config(self, engine: Engine) -> Any:
        """The cache config of the engine's scheduler: the engine core takes off the wrappers around unequal layers."""
        return self.blocks.generate_scheduler_kv_cache_config([engine.cache_config])


class ReleaseProbe:
    """A probe's state between questions, and its target, imported when it is first needed.

    ``kind``: the probe's `Release`. ``library``: see `seat.Probe`.
    """

    kind: type[Release]

    def __init__(self, *library: str) -> None:
        self.tree: Path | None = None
        self.stage = ""
        self.reached: seat.Answer | None = None
        self.library = library
        self._target: Any = None

    @property
    def target(self) -> Any:
        """The target."""
        if self._target is None:
            self.stage = "import"
            self._target = self.kind()
            self.tree = self._target.tree
        return self._target


@contextlib.contextmanager
def watched(logger: str) -> Iterator[Errors]:
    """The errors that are logged while a case runs. What the case does to this process's cores is undone."""
    errors = Errors()
    logging.getLogger(logger).addHandler(errors)
    affinity = os.sched_getaffinity(0)
    try:
        yield errors
    finally:
        logging.getLogger(logger).removeHandler(errors)
        os.sched_setaffinity(0, affinity)
