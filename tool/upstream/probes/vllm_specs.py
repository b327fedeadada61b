# SPDX-License-Identifier: Apache-2.0
"""A worker of a case in vLLM's words: its memory as tensors, its layers as specs, its groups as a cache config.

The case says where every page lies; the tensors here are views of exactly those addresses. vLLM's classes are taken
from ``interface``, the target's ``vllm.v1.kv_cache_interface``: what a release has no words for is not driven.
"""

from __future__ import annotations

import dataclasses
import math
import zlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from seat import NotDriven

MEMORY_LIMIT = 1 << 31
"""Bytes of the storages of one worker; all workers live in this process."""

DEFAULT_BLOCK = 16
"""Tokens of a block where no group has any: vLLM's default."""

TOKEN_KINDS = ("attention", "sliding")
SSM_KINDS = ("ssm", "replicated-ssm")


class AsDevice(str):
    """What a tensor's ``device`` looks like when the target asks, and torch takes for the CPU.

    The target reads the memory kind of a view from ``device.type`` and hands ``device`` back to torch. There is no
    device here, so a view of VRAM says "cuda" and lies in CPU memory.
    """

    type = "cuda"
    index = 0


class DeviceView(torch.Tensor):
    """A view of a storage that the case puts into VRAM."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @property
    def device(self) -> Any:  # type: ignore[override]
        return AsDevice("cpu")


class Engine(SimpleNamespace):
    """One worker of the case as the target gets it.

    ``worker``: the case's words. ``storages``: tensors by name. ``caches``: views by layer. ``specs``: by layer.
    ``groups``: names in the order of the target's group ids. ``abutting``: see ``pages_abut``.
    ``cache_config``: the target's ``KVCacheConfig``.
    ``layout``: name of the KV cache layout. ``kernel_tokens``: tokens of a kernel page. ``block_tokens``: the block
    that all groups' blocks divide. ``configured_tokens``: the block size in the cache config. ``page_sizes``: kernel
    pages of the groups, in tokens. ``use_mla``: whether all attention is MLA. ``notes``: what had to be put otherwise.
    """


def build_engine(worker: SimpleNamespace, interface: Any, flat_mamba: bool, split_kv: bool) -> Engine:
    """Memory, specs and cache config of one worker. Raises NotDriven for what the release has no words for.

    ``flat_mamba``: a state's cache is one tensor, not a (conv, ssm) pair. ``split_kv``: attention caches have a K and a
    V half in each block, the layout of releases before K and V were packed into one content.
    """
    engine = Engine(worker=worker, interface=interface, flat_mamba=flat_mamba, split_kv=split_kv, notes=[])
    engine.groups = list(worker.groups)
    if sum(storage.bytes for storage in worker.storages.values()) > MEMORY_LIMIT:
        raise NotDriven(f"{worker.name} has more than {MEMORY_LIMIT} bytes of memory", "large memory")
    engine.layout = layout_of(worker)
    engine.abutting = pages_abut(engine)
    engine.kernel_tokens, engine.block_tokens = page_tokens(worker)
    engine.configured_tokens, engine.page_sizes = configured(worker)
    engine.storages = {
        storage.name: filled_storage(worker.name, storage.name, storage.bytes) for storage in worker.storages.values()
    }
    engine.specs = {layer.name: spec_of(engine, layer) for layer in worker.layers.values()}
    engine.use_mla = uses_mla(engine)
    engine.caches = {layer.name: view_of(engine, layer) for layer in worker.layers.values()}
    engine.heads = max(getattr(spec, "num_kv_heads", 1) for spec in engine.specs.values())
    engine.cache_config = cache_config(engine)
    engine.device_memory = "VRAM" if any(s.memory == "VRAM" for s in worker.storages.values()) else "DRAM"
    return engine


def filled_storage(worker: str, storage: str, size: int) -> torch.Tensor:
    """Memory that holds no zero byte, and other bytes at every place, storage and worker.

    So whatever lands in the wrong place is seen, and what turns zero was zeroed.
    """
    noise = np.random.default_rng(zlib.crc32(f"{worker}/{storage}".encode()))
    return torch.from_numpy(noise.integers(1, 256, size=size, dtype=np.uint8))


def layout_of(worker: SimpleNamespace) -> str:
    """vLLM's name for the order of dimensions: layer (L), block (B), head (H), state (N), content (C).

    Block-outer: pages of several layers lie in one row of a storage. Everything else is layer-outer.
    """
    outer = "LB"
    for storage in worker.storages:
        layers = [layer for layer in worker.layers.values() if layer.storage == storage]
        if len(layers) > 1 and all(layer.offset + layer.page_bytes <= layer.page_stride for layer in layers):
            if any(layer.page_bytes < layer.page_stride for layer in layers):
                outer = "BL"
        elif len(layers) > 1:
            return "LB" + inner_order(worker)
    return outer + inner_order(worker)


def pages_abut(engine: Engine) -> bool:
    """Whether the release has no stride between pages but in rows of several layers.

    It has an allocation for each set of layers that share pages, and pads a page to the stride that it shall have.
    """
    rows = engine.layout.startswith("BL") and len({layer.offset for layer in engine.worker.layers.values()}) > 1
    return not rows and not has_field(engine, "KVCacheTensor", "layers")


def inner_order(worker: SimpleNamespace) -> str:
    """HNC where a head's states lie together, NHC where a state's heads do."""
    found = {
        part.order
        for layer in worker.layers.values()
        if worker.groups[layer.group].kind in TOKEN_KINDS
        for part in layer.parts
        if part.count > 1
    }
    if len(found) > 1:
        raise NotDriven("parts in unit-major and in state-major order; an engine has one layout", "mixed orders")
    return "NHC" if found == {"state-major"} else "HNC"


def page_tokens(worker: SimpleNamespace) -> tuple[int, int]:
    """Tokens of a kernel page, and of the block that it divides: one number for all groups of an engine."""
    groups = [group for group in worker.groups.values() if group.kind in TOKEN_KINDS]
    if not groups:
        return DEFAULT_BLOCK, DEFAULT_BLOCK
    block = math.lcm(*(group.block_tokens for group in groups))
    pages = {group.block_tokens // group.pages_per_block for group in groups}
    if len(pages) == 1:
        return pages.pop(), block
    if all(group.pages_per_block == 1 for group in groups):
        return block, block
    raise NotDriven(f"kernel pages of {sorted(pages)} tokens; an engine has one size", "several page sizes")


def configured(worker: SimpleNamespace) -> tuple[int, list[int]]:
    """The block size that the engine core writes into the cache config, the smallest; and every group's kernel page."""
    groups = [group for group in worker.groups.values() if group.kind in TOKEN_KINDS]
    smallest = min((group.block_tokens for group in groups), default=DEFAULT_BLOCK)
    return smallest, sorted({group.block_tokens // group.pages_per_block for group in groups})


def spec_of(engine: Engine, layer: SimpleNamespace) -> Any:
    """The target's spec of one layer."""
    group = engine.worker.groups[layer.group]
    if group.kind in SSM_KINDS:
        return state_spec(engine, layer, group)
    if group.kind == "ring":
        return ring_spec(engine, layer, group)
    return attention_spec(engine, layer, group)


def attention_spec(engine: Engine, layer: SimpleNamespace, group: SimpleNamespace) -> Any:
    """MLA where a page is one record a state, heads otherwise; with a window where the group slides."""
    heads, states, cell = content(engine, layer, group)
    mla = one_record(layer)
    kind = {
        ("attention", True): "MLAAttentionSpec",
        ("attention", False): "FullAttentionSpec",
        ("sliding", True): "SlidingWindowMLASpec",
        ("sliding", False): "SlidingWindowSpec",
    }[group.kind, mla]
    page = (layer.page_stride if engine.abutting else layer.page_bytes) * group.pages_per_block
    fields: dict[str, Any] = {"block_size": group.block_tokens, "num_kv_heads": heads, **elements(layer, cell, mla)}
    if heads * states * cell * group.pages_per_block != page:
        fields["page_size_padded"] = page
    compression = tokens_per_state(layer, group)
    if compression > 1:
        fields[first_field(engine, kind, "tokens_per_state", "compress_ratio")] = compression
    if group.kind == "sliding":
        fields["sliding_window"] = group.window_tokens
        if group.retained_tokens:
            fields["extra_retained_tokens"] = group.retained_tokens
    return checked_page(make(engine, kind, fields), page, layer)


def elements(layer: SimpleNamespace, cell: int, mla: bool) -> dict[str, Any]:
    """Type and sizes of a head's state: of 16 bit numbers, K and V side by side, where the bytes allow for it."""
    if mla and cell % 2 == 0:
        return {"head_size": cell // 2, "head_size_v": 0, "dtype": torch.bfloat16}
    if not mla and len(layer.parts) == 1 and cell % 4 == 0:
        return {"head_size": cell // 4, "head_size_v": cell // 4, "dtype": torch.bfloat16}
    return {"head_size": cell, "head_size_v": 0, "dtype": torch.uint8}


def ring_spec(engine: Engine, layer: SimpleNamespace, group: SimpleNamespace) -> Any:
    """A compressor's circular buffer; its block size is its capacity."""
    cell = layer.page_bytes // group.block_tokens
    if not cell:
        raise NotDriven(f"layer {layer.name}: less than a byte for each of {group.block_tokens} slots", "tiny ring")
    fields: dict[str, Any] = {
        "block_size": group.block_tokens,
        "num_kv_heads": 1,
        "head_size": cell,
        "head_size_v": 0,
        "dtype": torch.uint8,
    }
    if cell * group.block_tokens != layer.page_bytes:
        fields["page_size_padded"] = layer.page_bytes
    return checked_page(make(engine, "CircularBufferSpec", fields), layer.page_bytes, layer)


def state_spec(engine: Engine, layer: SimpleNamespace, group: SimpleNamespace) -> Any:
    """A recurrent state. Layer-outer caches are dense: there the padded page is the stride between pages."""
    dense = engine.layout.startswith("LB")
    page = layer.page_stride if dense else layer.page_bytes
    table = engine.worker.tables.get(layer.group)
    fields: dict[str, Any] = {"block_size": engine.block_tokens, "page_size_padded": page}
    if group.kind == "replicated-ssm":
        if not has_field(engine, "MambaSpec", "tp_replicated"):
            raise NotDriven("this release has no replicated state", "replicated state")
        fields |= {"shapes": ((layer.page_bytes, 1),), "dtypes": (torch.uint8,), "tp_replicated": True}
        fields["mamba_type"] = mamba_type("SHORT_CONV")
    else:
        kind, conv, state = state_shapes(engine, layer)
        fields |= {"shapes": (conv, state), "dtypes": (torch.uint8, torch.uint8), "mamba_type": mamba_type(kind)}
    if table is not None and table.live is not None:
        # Slots behind the live one are scratch for speculative decoding.
        fields["num_speculative_blocks"] = len(table.blocks) - 1 - table.live
    return checked_page(make(engine, "MambaSpec", fields), page, layer)


def state_shapes(engine: Engine, layer: SimpleNamespace) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """A kind of mixer, and shapes of its conv and temporal states in bytes, whose slices are the layer's parts.

    The connector derives the slices of the conv state from these shapes; so they are chosen to give the parts.
    """
    sizes = [part.unit_bytes * part.count for part in layer.parts]
    if not sizes:
        engine.notes.append(f"{layer.name}: an opaque state is shown as a conv state of 1 B and a temporal state")
        sizes = [1, layer.page_bytes - 1]
    if len(sizes) == 2:
        for rows in divisors(sizes[0]):
            if sizes[1] % (sizes[0] // rows) == 0:
                wide = sizes[0] // rows
                return "MAMBA1", (wide, rows), (wide, sizes[1] // wide)
    if len(sizes) == 4 and sizes[1] == sizes[2]:
        for rows in divisors(math.gcd(sizes[0], sizes[1])):
            wide = sizes[0] // rows
            if sizes[3] % wide == 0:
                return "MAMBA2", (sum(sizes[:3]) // rows, rows), (1, wide, sizes[3] // wide)
    if len(sizes) == 4 and sizes[0] == sizes[1]:
        for rows in divisors(math.gcd(sizes[0], sizes[2])):
            wide = sizes[2] // rows
            if sizes[3] % wide == 0:
                return "GDN_ATTN", (sum(sizes[:3]) // rows, rows), (1, wide, sizes[3] // wide)
    raise NotDriven(f"layer {layer.name}: no mixer of the target slices its state into {sizes} bytes", "state slices")


def divisors(number: int) -> list[int]:
    """Divisors, the largest first: few wide rows make the numbers look like a model's."""
    return [rows for rows in range(number, 0, -1) if number % rows == 0]


def mamba_type(name: str) -> Any:
    """The target's name for a kind of mixer."""
    from vllm.v1.attention.backends import registry

    return getattr(registry.MambaAttentionBackendEnum, name)


def content(engine: Engine, layer: SimpleNamespace, group: SimpleNamespace) -> tuple[int, int, int]:
    """Heads, states, and bytes of one head's state in a page."""
    states = group.block_tokens // group.pages_per_block // tokens_per_state(layer, group)
    if not states:
        raise NotDriven(f"layer {layer.name}: a page of less than one state", "page of less than a state")
    if not layer.parts:
        return 1, states, layer.page_bytes // states
    sizes = {part.unit_bytes for part in layer.parts}
    if len(sizes) == 1:
        return sum(part.count for part in layer.parts), states, sizes.pop()
    engine.notes.append(f"{layer.name}: parts of unequal units are shown as one head")
    return 1, states, sum(part.unit_bytes * part.count for part in layer.parts)


def tokens_per_state(layer: SimpleNamespace, group: SimpleNamespace) -> int:
    """Tokens that one stored state stands for. An opaque page shorter than its tokens must have fewer states."""
    tokens = group.block_tokens // group.pages_per_block
    if layer.parts or layer.page_bytes * layer.tokens_per_state >= tokens:
        return int(layer.tokens_per_state)
    return next(number for number in reversed(divisors(tokens)) if layer.page_bytes * number >= tokens)


def one_record(layer: SimpleNamespace) -> bool:
    """Whether every state is one record, which every rank holds."""
    return not layer.parts or (len(layer.parts) == 1 and layer.parts[0].units == 1)


def uses_mla(engine: Engine) -> bool:
    """Whether there is attention and all of it is MLA: what the model config would say."""
    kinds = engine.interface.MLAAttentionSpec, engine.interface.SlidingWindowMLASpec
    attention = [
        engine.specs[layer.name]
        for layer in engine.worker.layers.values()
        if engine.worker.groups[layer.group].kind in TOKEN_KINDS
    ]
    return bool(attention) and all(isinstance(spec, kinds) for spec in attention)


def view_of(engine: Engine, layer: SimpleNamespace) -> Any:
    """The layer's cache: one entry of the first dimension for each page, at the case's addresses."""
    group = engine.worker.groups[layer.group]
    storage = engine.worker.storages[layer.storage]
    pages = engine.worker.pools[group.pool].blocks * group.pages_per_block
    memory, offset = allocation(engine, layer, pages)
    if group.kind in SSM_KINDS:
        return state_view(engine, layer, pages, memory, offset)
    if group.kind == "ring":
        heads, states = 1, group.block_tokens
        cell = layer.page_bytes // states
    else:
        heads, states, cell = content(engine, layer, group)
    shape, strides = [heads, states, cell], [states * cell, cell, 1]
    if engine.layout.endswith("NHC") and heads > 1:
        strides = [cell, heads * cell, 1]
    if engine.split_kv and not engine.use_mla and group.kind in TOKEN_KINDS:
        if heads % 2:
            raise NotDriven(f"layer {layer.name}: this release has K and V halves; {heads} heads have none", "halves")
        shape, strides = [2, heads // 2, states, cell], [heads // 2 * states * cell, *strides]
    return looking(memory.as_strided([pages, *shape], [layer.page_stride, *strides], offset), storage)


def allocation(engine: Engine, layer: SimpleNamespace, pages: int) -> tuple[torch.Tensor, int]:
    """The tensor that holds the layer, and where in it the layer starts.

    Where the release takes a common allocation for rows, the pages of a layer are shown as a tensor of their own.
    """
    memory = engine.storages[layer.storage]
    if not engine.abutting:
        return memory, layer.offset
    return torch.from_numpy(memory.numpy()[layer.offset : layer.offset + pages * layer.page_stride]), 0


def state_view(engine: Engine, layer: SimpleNamespace, pages: int, memory: torch.Tensor, offset: int) -> Any:
    """A state's cache: whole pages, or the pair of conv and temporal state that older releases take."""
    pages_of = memory.as_strided([pages, layer.page_bytes], [layer.page_stride, 1], offset)
    whole = looking(pages_of, engine.worker.storages[layer.storage])
    if engine.flat_mamba:
        return whole
    conv = math.prod(engine.specs[layer.name].shapes[0])
    return [whole[:, :conv], whole[:, conv:]]


def looking(view: torch.Tensor, storage: SimpleNamespace) -> torch.Tensor:
    """The view, looking as if it lay where the case puts it."""
    return view.as_subclass(DeviceView) if storage.memory == "VRAM" else view


def cache_config(engine: Engine) -> Any:
    """The target's KVCacheConfig: groups, pool size, and where each layer's pages are."""
    worker, interface = engine.worker, engine.interface
    hosts = {name for name in worker.groups if in_host_pool(worker, name)}
    mixed = len({storage.memory for storage in worker.storages.values()}) > 1
    if mixed and not has_field(engine, "KVCacheGroupSpec", "host_resident"):
        raise NotDriven("this release has one kind of memory in a worker", "mixed memory")
    groups = []
    for name in engine.groups:
        names = [layer.name for layer in worker.layers.values() if layer.group == name]
        if not names:
            raise NotDriven(f"group {name} has no layers", "empty group")
        extra = {"host_resident": True} if name in hosts else {}
        groups.append(interface.KVCacheGroupSpec(names, group_spec(engine, names), **extra))
    fields: dict[str, Any] = {
        "num_blocks": pool_size(worker, [name for name in worker.groups if name not in hosts]),
        "kv_cache_tensors": [tensor_of(engine, layer, hosts) for layer in worker.layers.values()],
        "kv_cache_groups": groups,
        "kv_cache_layout": engine.layout,
    }
    if hosts:
        fields["hisparse_host_num_blocks"] = pool_size(worker, list(hosts))
    return make(engine, "KVCacheConfig", fields, optional=("kv_cache_layout",))


def group_spec(engine: Engine, names: list[str]) -> Any:
    """The spec of a group; the target wraps unequal ones."""
    specs = {name: engine.specs[name] for name in names}
    first = next(iter(specs.values()))
    if all(spec == first for spec in specs.values()):
        return first
    return engine.interface.UniformTypeKVCacheSpecs(block_size=first.block_size, kv_cache_specs=specs)


def in_host_pool(worker: SimpleNamespace, group: str) -> bool:
    """Whether a group lies in host memory beside others in device memory, vLLM's sparse attention off the device."""
    kinds = {worker.storages[layer.storage].memory for layer in worker.layers.values() if layer.group == group}
    return kinds == {"DRAM"} and any(storage.memory == "VRAM" for storage in worker.storages.values())


def pool_size(worker: SimpleNamespace, groups: list[str]) -> int:
    """Blocks of the pool that these groups share."""
    sizes = {worker.pools[worker.groups[name].pool].blocks for name in groups}
    if len(sizes) > 1:
        raise NotDriven(f"pools of {sorted(sizes)} blocks; an engine has one size", "several pool sizes")
    return sizes.pop() if sizes else 1


def tensor_of(engine: Engine, layer: SimpleNamespace, hosts: set[str]) -> Any:
    """Where the layer's pages are, in the words of the release."""
    fields: dict[str, Any] = {"size": engine.worker.storages[layer.storage].bytes}
    if has_field(engine, "KVCacheTensor", "layers"):
        fields |= {"layers": [layer.name], "layer_stride": layer.page_bytes}
        fields |= {"block_stride": layer.page_stride, "offset": layer.offset}
    else:
        fields |= {"shared_by": [layer.name]}
    if layer.group in hosts:
        fields["host_resident"] = True
    return make(engine, "KVCacheTensor", fields)


def make(engine: Engine, kind: str, fields: dict[str, Any], optional: tuple[str, ...] = ()) -> Any:
    """An object of one of the target's dataclasses. Raises NotDriven where the release lacks the class or a field."""
    found = getattr(engine.interface, kind, None)
    if found is None:
        raise NotDriven(f"this release has no {kind}", kind)
    known = {field.name for field in dataclasses.fields(found)}
    missing = [name for name in fields if name not in known and name not in optional and name != "head_size_v"]
    if missing:
        raise NotDriven(f"{kind} of this release has no field {missing[0]}", f"{kind}.{missing[0]}")
    return found(**{name: value for name, value in fields.items() if name in known})


def has_field(engine: Engine, kind: str, field: str) -> bool:
    """Whether the release's dataclass has a field."""
    return any(found.name == field for found in dataclasses.fields(getattr(engine.interface, kind)))


def first_field(engine: Engine, kind: str, *names: str) -> str:
    """Under which name the release has a field. Raises NotDriven."""
    for name in names:
        if hasattr(engine.interface, kind) and has_field(engine, kind, name):
            return name
    raise NotDriven(f"{kind} of this release has no field {names[0]}", f"{kind}.{names[0]}")


def checked_page(spec: Any, page: int, layer: SimpleNamespace) -> Any:
    """The spec, whose page must be as long as the case says: all that follows rests on it."""
    if spec.page_size_bytes != page:
        reason = f"layer {layer.name}: the target makes a page of {spec.page_size_bytes} bytes out of {page}"
        raise NotDriven(reason, "page size")
    return spec
