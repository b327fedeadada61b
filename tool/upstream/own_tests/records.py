# SPDX-License-Identifier: Apache-2.0
"""What the plugin ``probes/vllm_tests.py`` writes down while vLLM's own tests run: one record a line.

Everything that a test left out or mocked is None. Addresses and sizes are bytes, ids and counts have no unit. A *page*
here is what the worker calls a kernel block, a *block* what its scheduler allocates.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from kvproof.failure import Failure
from kvproof.spec.descriptors import Row
from kvproof.upstream.running.lost import Lost
from kvproof.upstream.running.scratch import opened

Ids = tuple[int, ...]
GroupIds = tuple[Ids, ...]


class Spec(msgspec.Struct, frozen=True):
    """How the pages of a layer are made, in the target's own terms. ``layers``: of each, where they differ."""

    types: tuple[str, ...]
    block_size: int | None = None
    page_size_bytes: int | None = None
    tokens_per_state: int | None = None
    shapes: tuple[Ids, ...] | None = None
    item_bytes: Ids = ()
    mamba_type: str | None = None
    tp_replicated: bool | None = None
    layers: dict[str, Spec] = {}


class Group(msgspec.Struct, frozen=True):
    """Layers that share a block table. ``host``: their pages are in the host's memory, with a pool of its own."""

    layers: tuple[str, ...]
    host: bool
    blocks: int | None
    spec: Spec


class Engine(msgspec.Struct, frozen=True):
    """The numbers a worker plans with. ``region_groups``: -1 is a region that the ids of all groups address."""

    kernel_tokens: int | None = None
    pages_per_block: int | None = None
    blocks: int | None = None
    has_mamba: bool | None = None
    use_mla: bool | None = None
    group_types: tuple[str, ...] | None = None
    regions: int | None = None
    region_bytes: Ids | None = None
    region_strides: Ids | None = None
    region_pages: Ids | None = None
    region_groups: Ids | None = None
    layer_groups: Ids | None = None
    ssm_regions: Ids | None = None
    scratch_regions: Ids | None = None
    ple_group: int | None = None
    ple_region: int | None = None
    conv_parts: int | None = None
    descriptors: int | None = None
    tp_size: int | None = None
    pp_size: int | None = None
    dcp_size: int | None = None
    groups: tuple[Group, ...] | None = None
    group_ids: Ids | None = None


class LayerView(msgspec.Struct, frozen=True):
    """The memory of a layer as the worker was given it: ``pages`` along its first axis, ``stride`` apart.

    ``dense``: the content of a page is one run of bytes.
    """

    name: str
    address: int
    stride: int
    pages: int
    storage: int
    storage_bytes: int
    dense: bool = True


class OwnPlan(msgspec.Struct, frozen=True):
    """Ids that the worker computed for blocks of one group, of itself and of a twin."""

    group: int
    source_blocks: Ids
    target_blocks: Ids
    source_ids: Ids = ()
    target_ids: Ids = ()
    error: str | None = None


class Request(msgspec.Struct, frozen=True):
    """What was asked for. ``local_blocks`` of each group leave out what is cached; ``tokens``: if the peer told.

    ``cached_blocks`` counts by cache group, which are more than those that move (see ``Engine.group_ids``).
    """

    local_blocks: GroupIds | None = None
    remote_blocks: GroupIds | None = None
    cached_blocks: Ids | None = None
    tokens: int | None = None
    peer: str | None = None
    zeroed_pages: GroupIds | None = None


class Remote(msgspec.Struct, frozen=True):
    """What a worker believes of its peer; ``own_region_pages``: of itself, where it plans with the peer."""

    pages_per_block: int | None = None
    kernel_tokens: int | None = None
    tp_size: int | None = None
    dcp_size: int | None = None
    ranks: Ids | None = None
    region_groups: Ids | None = None
    region_pages: Ids | None = None
    pages: int | None = None
    own_region_pages: Ids | None = None


class Peer(msgspec.Struct, frozen=True):
    """What a peer said of itself when they shook hands."""

    engine_id: str | None = None
    kv_caches_base_addr: Ids | None = None
    num_blocks: int | None = None
    block_lens: Ids | None = None
    block_strides: Ids | None = None
    block_size: int | None = None
    ssm_sizes: Ids | None = None
    physical_blocks_per_logical_kv_block: int | None = None


class Posted(msgspec.Struct, frozen=True):
    """A transfer that was posted: ids into two prepared lists. The worker's own side is ``local``."""

    local_ids: Ids | None
    remote_ids: Ids | None
    local_rows: tuple[Row, ...] | None = None
    remote_rows: tuple[Row, ...] | None = None


Event = Literal[
    "outcome", "registered", "peer", "read", "write", "ids", "trimmed", "dcp-trimmed", "expanded", "mapped", "rows",
    "reordered", "finished",
]  # fmt: skip


class Record(msgspec.Struct, frozen=True):
    """One call of a worker's method, or how a test ended (``outcome``). ``inner``: wrapped calls that it made.

    ``unmarked``: the target does not say of the test that it runs without a GPU.
    ``error``: what the call raised. ``plugin``: what went wrong in the plugin, and then the rest may be incomplete.
    """

    event: Event
    test: str
    params: dict[str, Any] = {}
    worker: int | None = None
    error: str | None = None
    plugin: str | None = None
    outcome: str | None = None
    unmarked: bool = False
    words: str = ""
    engine: Engine | None = None
    layers: tuple[LayerView, ...] = ()
    rows: tuple[Row, ...] | None = None
    own: tuple[OwnPlan, ...] = ()
    request: Request | None = None
    remote: Remote | None = None
    peer: Peer | None = None
    transfers: tuple[Posted, ...] = ()
    given: dict[str, Any] = {}
    answer: Any = None
    zeroes: tuple[tuple[int, int], ...] = ()
    inner: tuple[Record, ...] = ()


def read_records(folder: Path, name: str) -> Iterator[Record]:
    """The records of a file, in order. Raises Failure for a line that is none, or where something else lies there."""
    try:
        with opened(folder, name) as lines:
            for number, line in enumerate(lines, 1):
                yield _record(line, f"{name}, line {number}")
    except Lost as lost:
        raise Failure(f"what the tests were captured doing cannot be read: they {lost.words}") from None


def _record(line: bytes, where: str) -> Record:
    try:
        return msgspec.json.decode(line, type=Record)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Failure(f"{where}: no record of a test: {error}") from None
