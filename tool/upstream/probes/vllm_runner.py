# SPDX-License-Identifier: Apache-2.0
"""What vLLM's model runner would make of a plan and an attention backend: kernel pages, views of layers, a layout.

A connector is handed these views. A geometry that the runner does not make is none that flags can reach.
"""

from __future__ import annotations

import importlib
import os
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from vllm_specs import TOKEN_KINDS, Engine

VARIABLE = "VLLM_KV_CACHE_LAYOUT"
OLD_NAMES = {"LBHNC": "HND", "LBNHC": "NHD"}
"""Layouts that releases have which do not resolve one for the whole model, and what the variable calls them."""


def customized(specs: dict[str, Any], backend: Any) -> dict[str, Any]:
    """Specs as the runner passes them on: a backend may ask for other strides between blocks, say."""
    change = getattr(importlib.import_module("vllm.v1.worker.utils"), "customize_attention_spec", None)
    if change is None:
        return specs
    kind = importlib.import_module("vllm.v1.kv_cache_interface").AttentionSpec
    return {name: change(backend, spec) if isinstance(spec, kind) else spec for name, spec in specs.items()}


def modelled(engine: Engine, backend: Any, size: int) -> dict[str, Any]:
    """The specs that a model's layers give with this block size flag. A window of layers with heads has its own rule.

    Raises whatever the target raises that cannot be asked so.
    """
    choose = importlib.import_module("vllm.model_executor.layers.attention.attention")._largest_kernel_block_within
    specs = {}
    for name, spec in engine.specs.items():
        block = spec.block_size
        if headed(engine, spec):
            block = chosen_by(choose, backend, spec, size) if isinstance(spec, windows(engine)) else size
        specs[name] = spec if block == spec.block_size else spec.copy_with_new_block_size(block)
    return specs


def chosen_by(choose: Any, backend: Any, spec: Any, size: int) -> int:
    """The block of a window by the target's rule. Its budget is a page of the flag's size; older releases have none."""
    state = spec.page_size_bytes // spec.block_size
    try:
        return int(choose(backend, state, None, size))
    except TypeError:
        return int(choose(backend, state, state * size, size))


def windows(engine: Engine) -> Any:
    """The target's spec of layers with heads and a window."""
    return engine.interface.SlidingWindowSpec


def headed(engine: Engine, spec: Any) -> bool:
    """Whether a layer has heads, and pages that nothing pads: its block then follows from the block size flag."""
    mla = engine.interface.MLAAttentionSpec, getattr(engine.interface, "SlidingWindowMLASpec", ())
    kinds = engine.interface.FullAttentionSpec, windows(engine)
    return isinstance(spec, kinds) and not isinstance(spec, mla) and spec.page_size_padded is None


def unmade(engine: Engine, planned: Any, backend: Any) -> str | None:
    """In what the runner's kernel pages and views differ from the case's, or why it refuses."""
    utils = importlib.import_module("vllm.v1.worker.utils")
    try:
        sizes = utils.prepare_kernel_block_sizes(planned, attention_groups(engine, planned, backend))
        for name, size in zip(group_names(engine, planned), sizes, strict=True):
            group = engine.worker.groups[name]
            if group.kind in TOKEN_KINDS and size * group.pages_per_block != group.block_tokens:
                return f"makes kernel pages of {size} tokens of blocks of {group.block_tokens} in group {name}"
        if not hasattr(utils, "allocate_kv_cache"):
            return None
        layouts = importlib.import_module("vllm.v1.kv_cache_interface").KVCacheLayout
        views = utils.allocate_kv_cache(planned, torch.device("meta"), layouts[engine.layout], sizes)
    except Exception as error:  # torch's own, too: a stride that does not divide, say
        return f"does not get past the runner: {type(error).__name__}: {error}"
    for name, view in views.items():
        if shape_of(view) != shape_of(engine.caches[name]):
            return f"views {name} as {said(view)}, not {said(engine.caches[name])}"
    return None


def attention_groups(engine: Engine, planned: Any, backend: Any) -> list[list[Any]]:
    """For each group of the plan its backends and specs. A ring has kernels of its own, which take its size."""
    anything = importlib.import_module("vllm.v1.attention.backend").AttentionBackend
    found = []
    for name, group in zip(group_names(engine, planned), planned.kv_cache_groups, strict=True):
        specs = getattr(group.kv_cache_spec, "kv_cache_specs", {"": group.kv_cache_spec}).values()
        taker = backend if engine.worker.groups[name].kind in TOKEN_KINDS else anything
        found.append([SimpleNamespace(backend=taker, kv_cache_spec=spec) for spec in specs])
    return found


def group_names(engine: Engine, planned: Any) -> list[str]:
    """The case's name of each group of a plan that groups layers as the case does."""
    return [engine.worker.layers[group.layer_names[0]].group for group in planned.kv_cache_groups]


def shape_of(view: Any) -> tuple[int, int, int]:
    """Pages of a view, bytes from one to the next, and bytes of one; how heads are cut matters to kernels only."""
    size = view.element_size()
    return int(view.shape[0]), int(view.stride(0)) * size, int(view[0].numel()) * size


def said(view: Any) -> str:
    """A view in words."""
    pages, stride, size = shape_of(view)
    return f"{pages} pages of {size} B, {stride} B apart"


def layout_flag(engine: Engine, config: Any, backend: Any) -> tuple[str | None, str | None]:
    """What the layout variable must be set to, if to anything, and why it cannot be had, if it cannot."""
    utils = importlib.import_module("vllm.v1.attention.backends.utils")
    if not hasattr(utils, "resolve_kv_cache_layout"):
        wanted = OLD_NAMES.get(engine.layout)  # rows are the planner's own idea in these releases
        return (wanted if wanted == "NHD" and not one_head(engine) else None), None
    named = [layout.name for layout in utils.get_supported_kv_cache_layouts([backend])]

    def resolved(variable: str | None) -> str:
        asking = SimpleNamespace(
            cache_config=SimpleNamespace(kv_cache_layout=None),
            kv_transfer_config=config.kv_transfer_config,
            model_config=config.model_config,
        )
        with patch.dict(os.environ, {VARIABLE: variable} if variable else {}):
            if variable is None:
                os.environ.pop(VARIABLE, None)
            return str(utils.resolve_kv_cache_layout(asking, [named], engine.specs.values()).name)

    try:
        if alike(engine, resolved(None)):
            return None, None
        resolved(engine.layout)
    except ValueError as error:
        return None, f"the layout cannot be had: {error}"
    return engine.layout, None


def one_head(engine: Engine) -> bool:
    """Whether no layer has more heads than one, so that it does not matter whether heads or states come first."""
    return all(getattr(spec, "num_kv_heads", 1) == 1 for spec in engine.specs.values())


def alike(engine: Engine, layout: str) -> bool:
    """Whether a layout puts the engine's bytes where the case has them."""
    return layout == engine.layout or (one_head(engine) and layout[:2] == engine.layout[:2])
