# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin for vLLM's own tests: writes down the geometries that they build and the plans that they pin.

It runs in the target's Python (``-p vllm_tests``) and imports nothing of kvproof. Methods of the connector's workers
are wrapped; each outermost call becomes one JSON line in the file that the environment variable KVPROOF_CAPTURE names,
with the wrapped calls below it as its ``inner``. What a test left out, or mocked, is null. Addresses and sizes are
bytes. ``kvproof.upstream.own_tests.records`` describes and reads the lines.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import json
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

Record = dict[str, Any]
Describe = Callable[[Any, Record], Any]

NIXL = "vllm.distributed.kv_transfer.kv_connector.v1.nixl"
WORKERS = (
    (f"{NIXL}.base_worker", "NixlBaseConnectorWorker"),
    (f"{NIXL}.pull_worker", "NixlPullConnectorWorker"),
    (f"{NIXL}.push_worker", "NixlPushConnectorWorker"),
    (f"{NIXL}.worker", "NixlConnectorWorker"),
)
"""Modules and classes of the workers; a release has some of them."""

ALSO = ("test_register_",)
"""Tests that are not marked as free of GPUs, because of their fixtures, and run without one: names begin so."""

OWN_BLOCKS = 8
"""At most so many blocks of a group are moved when a registered worker is paired with a twin of itself."""

WATCHED_BYTES = 256 * 2**20
"""Memory beyond this is not compared to find out what was zeroed."""

ZEROES_LIMIT = 100_000


class Capture:
    """The file, the test that runs, and what is known of its workers and descriptor lists."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("a", encoding="utf-8")
        self.test = ""
        self.params: Record = {}
        self.workers: dict[int, int] = {}
        self.kept: list[Any] = []
        self.unmarked: set[str] = set()
        self.rows: dict[tuple[int, int], list[list[int]]] = {}
        self.calls = threading.local()

    def begin(self, test: str, params: Record) -> None:
        """A test begins."""
        self.test, self.params = test, params
        self.workers, self.kept, self.rows = {}, [], {}

    def write(self, event: str, fields: Record) -> None:
        """Write a line, or hand it to the call that it was made below."""
        record = {"event": event, "test": self.test, **fields}
        stack = self.stack()
        if stack:
            stack[-1].append(record)
        else:
            self.file.write(json.dumps({**record, "params": self.params}) + "\n")
            self.file.flush()

    def stack(self) -> list[list[Record]]:
        """One list of inner records for each wrapped call that this thread is in."""
        if not hasattr(self.calls, "stack"):
            self.calls.stack = []
        return self.calls.stack

    def number(self, worker: Any) -> int:
        """A number for the worker, unique within the test. It is kept alive, so that no other gets its id."""
        if id(worker) not in self.workers:
            self.workers[id(worker)] = len(self.workers)
            self.kept.append(worker)
        return self.workers[id(worker)]


CAPTURE: Capture | None = None


def pytest_configure(config: pytest.Config) -> None:
    """Wrap the target's methods before any test is imported."""
    global CAPTURE  # noqa: PLW0603 - a plugin has no other place
    CAPTURE = Capture(Path(os.environ["KVPROOF_CAPTURE"]))
    found = [cls for module, name in WORKERS if (cls := _class(module, name)) is not None]
    for cls in dict.fromkeys(found):
        for name, (event, describe) in METHODS.items():
            method = vars(cls).get(name)
            if inspect.isfunction(method):
                setattr(cls, name, _wrapped(method, event, describe))


def _class(module: str, name: str) -> type | None:
    try:
        return getattr(importlib.import_module(module), name, None)
    except ModuleNotFoundError:
        return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark more tests as free of GPUs, before those that are not are left out."""
    for item in items:
        if item.name.startswith(ALSO) and item.get_closest_marker("cpu_test") is None:
            item.add_marker("cpu_test")
            capture().unmarked.add(item.nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Remember which test runs, and with which parameters."""
    params = getattr(getattr(item, "callspec", None), "params", {})
    capture().begin(item.nodeid, {str(name): plain(value) for name, value in params.items()})


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write how the test ended: a line for its call, or for a set-up that did not get that far."""
    if report.when == "call" or report.outcome != "passed":
        words = "" if report.outcome == "passed" else str(report.longrepr)[-2000:]
        capture().test = report.nodeid
        unmarked = report.nodeid in capture().unmarked
        capture().write("outcome", {"outcome": report.outcome, "words": words, "unmarked": unmarked})


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Write which files could not be collected."""
    if report.failed:
        capture().test = report.nodeid
        capture().write("outcome", {"outcome": "not-collected", "words": str(report.longrepr)[-2000:]})


@pytest.fixture
def default_vllm_config() -> Iterator[Any]:
    """Stands in for the fixture of the target's own conftest.py: its default configuration."""
    config = importlib.import_module("vllm.config")
    default = config.VllmConfig()
    with config.set_current_vllm_config(default):
        yield default


@pytest.fixture
def dist_init() -> Iterator[None]:
    """Stands in for the fixture of that name: a process group of this process alone, if there is none yet."""
    config = importlib.import_module("vllm.config")
    state = importlib.import_module("vllm.distributed.parallel_state")
    with tempfile.TemporaryDirectory() as folder, config.set_current_vllm_config(config.VllmConfig()):
        method = f"file://{folder}/store"
        state.init_distributed_environment(1, 0, distributed_init_method=method, local_rank=0, backend="gloo")
        state.initialize_model_parallel(1, 1)
        yield
        state.destroy_model_parallel()
        state.destroy_distributed_environment()


def capture() -> Capture:
    """The one capture of this process."""
    assert CAPTURE is not None
    return CAPTURE


def plain(value: Any) -> Any:
    """The value if it is made of numbers, words and lists, else null in its place: what is mocked is not known."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, np.ndarray):
        # Where a group has no blocks at all, older releases turn ids into floats on the way.
        return (value.astype(np.int64) if value.dtype.kind == "f" else value).tolist()
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items()}
    return None


def own(worker: Any, name: str) -> Any:
    """A private field of a worker as plain data; null where a test did not set it, or mocked it."""
    return plain(vars(worker).get(name))


def _wrapped(method: Callable[..., Any], event: str, describe: Describe) -> Callable[..., Any]:
    """The method, with a line written when it returns or raises. What goes wrong in here fails no test."""
    signature = inspect.signature(method)

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        fields: Record = {"worker": capture().number(self), "class": type(self).__name__}
        note: Any = None
        heard = _Heard(self)
        inner: list[Record] = []
        try:
            given = signature.bind(self, *args, **kwargs)
            given.apply_defaults()
            note = describe(self, {**given.arguments, "fields": fields})
        except Exception as error:
            fields["plugin"] = repr(error)
        capture().stack().append(inner)
        failed: BaseException | None = None
        answer: Any = None
        try:
            with heard:
                answer = method(self, *args, **kwargs)
            return answer
        except BaseException as error:
            failed = error
            raise
        finally:
            capture().stack().pop()
            fields["error"] = None if failed is None else f"{type(failed).__name__}: {failed}"[:500]
            fields["transfers"] = heard.transfers
            fields["prepared"] = heard.prepared
            fields["inner"] = inner
            if note is not None:
                try:
                    note(answer)
                except Exception as error:
                    fields["plugin"] = repr(error)
            capture().write(event, fields)

    return call


class _Heard:
    """Listens to what a worker tells its NIXL agent during a call, by standing in front of the agent."""

    def __init__(self, worker: Any) -> None:
        self.worker = worker
        self.agent = vars(worker).get("nixl_wrapper")
        self.transfers: list[Record] = []
        self.prepared: list[Record] = []
        self._stands = False

    def __enter__(self) -> _Heard:
        if self.agent is not None and not isinstance(self.agent, _Front):
            self.worker.nixl_wrapper = _Front(self.agent, self)
            self._stands = True
        return self

    def __exit__(self, *_: object) -> None:
        if self._stands and isinstance(vars(self.worker).get("nixl_wrapper"), _Front):
            self.worker.nixl_wrapper = self.agent


class _Front:
    """Stands for an agent: passes everything on, and writes down lists and transfers."""

    def __init__(self, agent: Any, heard: _Heard) -> None:
        self._agent = agent
        self._heard = heard

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._agent, name)
        if name == "prep_xfer_dlist":
            return functools.partial(self._prepare, found)
        if name == "make_prepped_xfer":
            return functools.partial(self._make, found)
        return found

    def _prepare(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        handle = call(*args, **kwargs)
        rows = rows_of(args[1] if len(args) > 1 else kwargs.get("descs"))
        if rows is not None and isinstance(handle, int):
            capture().rows[id(self._agent), handle] = rows
            self._heard.prepared.append({"handle": handle, "rows": rows})
        return handle

    def _make(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        op, local, local_ids, remote, remote_ids = args[:5]
        self._heard.transfers.append(
            {
                "op": plain(op),
                "local_ids": plain(local_ids),
                "remote_ids": plain(remote_ids),
                "local_rows": self._rows(local),
                "remote_rows": self._rows(remote),
            }
        )
        return call(*args, **kwargs)

    def _rows(self, handle: Any) -> list[list[int]] | None:
        return capture().rows.get((id(self._agent), handle)) if isinstance(handle, int) else None


def rows_of(descs: Any) -> list[list[int]] | None:
    """Rows ``[address, bytes, device, stride, count]`` of a list in either of NIXL's forms; None if it is mocked."""
    if not isinstance(descs, (list, tuple, np.ndarray)) or not len(descs):
        return None
    if any(not isinstance(row, (list, tuple, np.ndarray)) or len(row) not in (3, 5) for row in descs):
        return None
    rows = [[int(one) for one in row] for row in descs]
    return rows if len(rows[0]) == 5 else _runs(rows)


def _runs(rows: list[list[int]]) -> list[list[int]]:
    """Single descriptors, put together where their lengths are equal and their starts evenly apart."""
    runs: list[list[int]] = []
    for address, length, device in rows:
        if runs and runs[-1][1:3] == [length, device]:
            run = runs[-1]
            stride = address - run[0] if run[4] == 1 else run[3]
            if 0 < stride and address == run[0] + run[4] * stride:
                run[3], run[4] = stride, run[4] + 1
                continue
        runs.append([address, length, device, length, 1])
    return runs


# What is written of each call. A describer gets the worker and the call's arguments (and the line so far as
# ``fields``), before the call is made; what it returns, if anything, is called with the call's own answer after it.


def _engine(worker: Any) -> Record:
    """The numbers that a worker plans with."""
    types = vars(worker).get("_group_spec_types")
    conv = vars(worker).get("_conv_decomp")
    return {
        "kernel_tokens": own(worker, "block_size"),
        "pages_per_block": own(worker, "_physical_blocks_per_logical_kv_block"),
        "blocks": own(worker, "_logical_num_blocks"),
        "has_mamba": own(worker, "_has_mamba"),
        "use_mla": own(worker, "use_mla"),
        "group_types": [t.__name__ for t in types] if isinstance(types, tuple) else None,
        "regions": own(worker, "num_regions"),
        "region_bytes": own(worker, "block_len_per_layer"),
        "region_strides": own(worker, "block_stride_per_layer"),
        "region_pages": own(worker, "region_num_blocks"),
        "region_groups": own(worker, "region_group_ids"),
        "layer_groups": own(worker, "_transfer_layer_group_ids"),
        "ssm_regions": own(worker, "_ssm_region_indices"),
        "scratch_regions": own(worker, "_scratch_region_indices"),
        "ple_group": own(worker, "_ple_group_index"),
        "ple_region": own(worker, "_ple_region_index"),
        "conv_parts": _conv_parts(conv),
        "conv_bytes": plain(getattr(conv, "local_conv_offsets", None)),
        "state_bytes": own(worker, "_mamba_ssm_size"),
        "descriptors": own(worker, "num_descs"),
        "tp_size": own(worker, "world_size"),
        "pp_size": own(worker, "pp_size"),
        "dcp_size": own(worker, "dcp_size"),
        "groups": _groups(worker),
        "group_ids": plain(getattr(vars(worker).get("kv_cache_config"), "transfer_group_ids", None)),
    }


def _conv_parts(conv: Any) -> int | None:
    parts = getattr(conv, "local_conv_offsets", None)
    return len(parts) if isinstance(parts, list) else None


def _groups(worker: Any) -> list[Record] | None:
    config = vars(worker).get("kv_cache_config")
    groups = getattr(config, "transfer_groups", None) or getattr(config, "kv_cache_groups", None)
    if not isinstance(groups, (list, tuple)):
        return None
    return [
        {
            "layers": plain(group.layer_names),
            "host": bool(plain(getattr(group, "host_resident", False))),
            "blocks": plain(getattr(config, "hisparse_host_num_blocks", None))
            if plain(getattr(group, "host_resident", False))
            else plain(getattr(config, "num_blocks", None)),
            "spec": _spec(group.kv_cache_spec),
        }
        for group in groups
    ]


SPEC_FIELDS = (
    "block_size", "page_size_bytes", "num_kv_heads", "head_size", "head_size_v", "tokens_per_state", "compress_ratio",
    "sliding_window", "shapes", "tp_replicated",
)  # fmt: skip


def _spec(spec: Any) -> Record:
    """A cache spec: its class and those it derives from, and its plain fields; where layers differ, those of each."""
    found: Record = {name: _field(spec, name) for name in SPEC_FIELDS}
    found["types"] = [cls.__name__ for cls in type(spec).__mro__[:-1]]
    kind = getattr(spec, "mamba_type", None)
    found["mamba_type"] = plain(getattr(kind, "name", kind))
    dtypes = getattr(spec, "dtypes", None) or ()
    found["item_bytes"] = [dtype.itemsize for dtype in dtypes if isinstance(dtype, torch.dtype)]
    layers = getattr(spec, "kv_cache_specs", None)
    if isinstance(layers, dict):
        found["layers"] = {str(name): _spec(one) for name, one in layers.items()}
    return found


def _field(spec: Any, name: str) -> Any:
    try:
        return plain(getattr(spec, name, None))
    except NotImplementedError:  # a property that this kind of cache has not
        return None


def _register(worker: Any, given: Record) -> Any:
    fields, caches = given["fields"], given["kv_caches"]

    def note(_: Any) -> None:
        fields["engine"] = _engine(worker)
        fields["layers"] = [_layer(name, view) for name, view in caches.items() if isinstance(view, torch.Tensor)]
        fields["rows"] = rows_of(vars(worker).get("src_blocks_data"))
        fields["own"] = _own_plans(worker) if fields["error"] is None else []

    return note


def _layer(name: str, view: torch.Tensor) -> Record:
    storage = view.untyped_storage()
    return {
        "name": name,
        "address": view.data_ptr(),
        "stride": view.stride(0) * view.element_size(),
        "pages": view.shape[0],
        "dense": _dense(view[0]) if view.ndim > 1 else True,
        "storage": storage.data_ptr(),
        "storage_bytes": storage.nbytes(),
    }


def _dense(page: torch.Tensor) -> bool:
    """Its elements fill one run of memory, in whichever order."""
    extent = 1 + sum((size - 1) * stride for size, stride in zip(page.shape, page.stride(), strict=True))
    return extent == page.numel()


def _own_plans(worker: Any) -> list[Record]:
    """For each group, descriptor ids to read blocks of a twin of this worker; the target computes them itself."""
    plans: list[Record] = []
    groups = _groups(worker) or []
    for index, group in enumerate(groups):
        count = min(group["blocks"] or 0, OWN_BLOCKS)
        whole = {"MambaSpec", "CircularBufferSpec"} & set(_types_of(group["spec"]))
        if count < 1:
            continue
        target = [0] if whole else [*range(count - 1), group["blocks"] - 1]
        source = [group["blocks"] - 1] if whole else target[::-1]
        plan: Record = {"group": index, "source_blocks": source, "target_blocks": target}
        try:
            plan["source_ids"] = _ids(worker, len(groups), index, source)
            plan["target_ids"] = _ids(worker, len(groups), index, target)
        except Exception as error:
            plan["error"] = f"{type(error).__name__}: {error}"[:500]
        plans.append(plan)
    return plans


def _types_of(spec: Record) -> list[str]:
    return [*spec["types"], *(name for one in spec.get("layers", {}).values() for name in one["types"])]


def _ids(worker: Any, groups: int, index: int, blocks: list[int]) -> list[int]:
    ratio = worker._physical_blocks_per_logical_kv_block
    cls = type(worker)
    everyone = [blocks if group == index else [] for group in range(groups)]
    expand = inspect.unwrap(cls._logical_to_kernel_block_ids)
    takes_ratio = len(inspect.signature(expand).parameters) > 2
    pages = expand(worker, everyone, ratio) if takes_ratio else expand(worker, everyone)
    compute = inspect.unwrap(cls._compute_desc_ids)
    wanted: Record = {
        "block_ids": [list(group) for group in pages],
        "dst_num_blocks": worker.num_blocks,
        "block_size_ratio": None,
        "physical_blocks_per_logical": ratio,
        "region_num_blocks": vars(worker).get("dst_region_num_blocks", {}).get(worker.engine_id) or None,
    }
    names = list(inspect.signature(compute).parameters)[1:]
    return plain(compute(worker, **{name: wanted[name] for name in names if name in wanted}))


def _peer(worker: Any, given: Record) -> Any:
    meta, fields = given["nixl_agent_meta"], given["fields"]
    names = (
        "engine_id", "kv_caches_base_addr", "num_blocks", "block_lens", "block_strides", "block_size", "ssm_sizes",
        "physical_blocks_per_logical_kv_block", "region_num_blocks", "region_group_ids", "region_names",
    )  # fmt: skip
    fields["peer"] = {name: plain(getattr(meta, name, None)) for name in names}
    fields["rank"] = [plain(given.get("remote_tp_rank", 0)), plain(given.get("remote_tp_size", 1))]


def _request(worker: Any, given: Record) -> Any:
    fields, meta = given["fields"], given["meta"]
    remote = getattr(meta, "remote", None)
    engine_id = plain(getattr(remote, "engine_id", None))
    mixed = vars(worker).get("_read_blocks_mixed")
    before = len(_calls(mixed))
    fields["request"] = {
        "id": plain(given.get("req_id")),
        "local_blocks": plain(getattr(meta, "local_block_ids", None)),
        "local_pages": plain(getattr(meta, "local_physical_block_ids", None)),
        "remote_blocks": plain(getattr(remote, "block_ids", None)),
        "cached_blocks": plain(getattr(meta, "local_num_computed_blocks", None)),
        "tokens": plain(getattr(remote, "num_tokens", None)),
        "peer": engine_id,
    }
    fields["engine"] = _engine(worker)
    fields["remote"] = _remote(worker, engine_id)

    def note(_: Any) -> None:
        # A test may have mocked the last step before the agent: what that was given is as good.
        for call in _calls(mixed)[before:]:
            fields["transfers"].append(
                {
                    "op": "READ",
                    "local_ids": plain(call.kwargs.get("local_block_descs_ids")),
                    "remote_ids": plain(call.kwargs.get("remote_block_descs_ids")),
                    "local_rows": None,
                    "remote_rows": None,
                }
            )
        fields["request"]["zeroed_pages"] = plain(getattr(meta, "region_blocks_to_zero", None))

    return note


def _calls(mock: Any) -> list[Any]:
    return list(getattr(mock, "call_args_list", ())) if mock is not None else []


def _remote(worker: Any, engine_id: Any) -> Record:
    """What a worker believes of its peer."""
    info: Any = None
    topology = vars(worker).get("transfer_topo")
    if topology is not None and engine_id is not None:
        with contextlib.suppress(KeyError):  # a peer that the worker does not know yet, or no more
            info = topology.get_engine_info(engine_id)
    plan = (vars(worker).get("tp_mappings") or {}).get(engine_id)
    return {
        "pages_per_block": plain(getattr(info, "remote_physical_blocks_per_logical", None)),
        "kernel_tokens": plain(getattr(info, "remote_block_size", None)),
        "tp_size": plain(getattr(info, "remote_tp_size", None)),
        "dcp_size": plain(getattr(info, "remote_dcp_size", None)),
        "ranks": plain(getattr(plan, "all_source_ranks", None)),
        "region_groups": plain((vars(worker).get("dst_region_group_ids") or {}).get(engine_id)),
        "region_pages": plain((vars(worker).get("dst_region_num_blocks") or {}).get(engine_id)),
        "pages": plain((vars(worker).get("dst_num_blocks") or {}).get(engine_id)),
        "own_region_pages": plain((vars(worker).get("dst_region_num_blocks") or {}).get(own(worker, "engine_id"))),
    }


def _call(worker: Any, given: Record) -> Any:
    """The arguments and the answer of a function that plans with numbers alone."""
    fields = given["fields"]
    fields["given"] = {name: plain(value) for name, value in given.items() if name not in ("self", "fields")}
    fields["engine"] = _engine(worker)

    def note(answer: Any) -> None:
        fields["answer"] = plain(answer)

    return note


def _build(worker: Any, given: Record) -> Any:
    """As any call; the answer is rows, in whichever form."""
    note = _call(worker, given)

    def rows(answer: Any) -> None:
        note(answer)
        given["fields"]["answer"] = rows_of(answer)

    return rows


def _finish(worker: Any, given: Record) -> Any:
    """Which bytes a completion turned to zero. Bytes that were zero before cannot be told."""
    views = vars(worker).get("device_kv_caches")
    tensors = [view for view in views.values() if isinstance(view, torch.Tensor)] if isinstance(views, dict) else []
    storages = {view.untyped_storage().data_ptr(): view.untyped_storage() for view in tensors}
    if not storages or sum(storage.nbytes() for storage in storages.values()) > WATCHED_BYTES:
        return None
    before = {address: _bytes(storage).copy() for address, storage in storages.items()}
    fields = given["fields"]

    def note(answer: Any) -> None:
        zeroes = [
            [address + start, length]
            for address, storage in storages.items()
            for start, length in _turned_zero(before[address], _bytes(storage))
        ]
        fields["zeroes"] = zeroes[:ZEROES_LIMIT]

    return note


def _bytes(storage: Any) -> np.ndarray:
    return torch.empty(0, dtype=torch.uint8).set_(storage).numpy()


def _turned_zero(before: np.ndarray, after: np.ndarray) -> list[tuple[int, int]]:
    turned = np.concatenate([[False], (before != 0) & (after == 0), [False]])
    edges = np.flatnonzero(turned[1:] != turned[:-1])
    return [(int(start), int(end - start)) for start, end in edges.reshape(-1, 2)]


METHODS: dict[str, tuple[str, Describe]] = {
    "register_kv_caches": ("registered", _register),
    "add_remote_agent": ("peer", _peer),
    "_read_blocks_for_req": ("read", _request),
    "_xfer_blocks_for_req": ("write", _request),
    "_compute_desc_ids": ("ids", _call),
    "_apply_prefix_caching": ("trimmed", _call),
    "_apply_dcp_prefix_caching": ("dcp-trimmed", _call),
    "_logical_to_kernel_block_ids": ("expanded", _call),
    "_map_block_ids_for_block_size_ratio": ("mapped", _call),
    "_build_fa_local": ("rows", _build),
    "post_process_device_kv_on_receive": ("reordered", _call),
    "get_finished": ("finished", _finish),
    "get_transfer_results": ("finished", _finish),
}
"""Method of a worker: the event its line is called, and who describes it."""
