# SPDX-License-Identifier: Apache-2.0
"""How far a geometry is vLLM's own: would its planner put these layers there, would a backend take these kernel pages?

Only the target's own code can make a geometry reachable. Where it cannot be asked, that is said.
"""

from __future__ import annotations

import importlib
import itertools
import re
from types import ModuleType
from typing import Any, NamedTuple

import seat
import torch
from vllm_runner import VARIABLE, customized, headed, layout_flag, modelled, unmade
from vllm_specs import SSM_KINDS, TOKEN_KINDS, Engine, in_host_pool

PLANNERS = ("vllm.v1.core.kv_cache_planning", "vllm.v1.core.kv_cache_utils")
"""Where releases keep the planner, the newest first."""

BACKENDS = ("FLASHMLA", "FLASHMLA_SPARSE", "FLASHMLA_SPARSE_DSV41", "TRITON_MLA", "FLASH_ATTN", "TRITON_ATTN")
"""Backends of the GPU releases that import without a GPU, the most common first."""

MEMORY = 1 << 50
"""Bytes the planner may plan with: more than any case; the number of blocks is given."""

TAGS = ("reachable", "worker-level", "synthetic")
"""From what launch flags alone can reach to what the planner refuses."""


class Place(NamedTuple):
    """Where a layer's blocks lie: allocation, offset of block 0, bytes between blocks, bytes of a block's page."""

    allocation: Any
    offset: int
    stride: int
    page: int


def reach(engines: list[Engine], configs: list[Any]) -> seat.Answer:
    """The reach of a case: that of the side that is further from what flags can do, with the words of both."""
    found = [reach_of(engine, config) for engine, config in zip(engines, configs, strict=True)]
    worst = max(found, key=lambda answer: TAGS.index(answer["tag"]))
    return {
        "tag": worst["tag"],
        "words": [
            f"{e.worker.name}: {word}" for e, answer in zip(engines, found, strict=True) for word in answer["words"]
        ],
        "flags": [flag for answer in found for flag in answer["flags"]] if worst["tag"] == "reachable" else [],
    }


def reach_of(engine: Engine, config: Any) -> seat.Answer:
    """The reach of one worker."""
    hosts = [name for name in engine.groups if in_host_pool(engine.worker, name)]
    if hosts:
        return seat.worker_level(f"group {hosts[0]} lies in host memory: the planner for that was not asked")
    try:
        planned = plan(engine, config)
    except Exception as error:
        return unplanned(error)
    regrouped = grouping(engine, planned)
    if regrouped:
        return {"tag": "synthetic", "words": [*regrouped, placed_as_grouped(engine, config)], "flags": []}
    if displaced := placing(engine, planned):
        return {"tag": "synthetic", "words": [displaced], "flags": []}
    if any(group.kind in SSM_KINDS for group in engine.worker.groups.values()):
        return seat.worker_level(
            "the planner gives these groups and places; the block size of a model with states is the target's to align"
        )
    found, why = backend_for(engine, config)
    words = f"the planner gives these groups and places; {why}"
    return {"tag": "reachable", "words": [words], "flags": found} if found else seat.worker_level(words)


def unplanned(error: Exception) -> seat.Answer:
    """What it means that the planner did not plan: it refuses, or this release cannot be asked so."""
    frames = list(seat.walk(error.__traceback__))
    if frames and frames[-1].raises and isinstance(error, seat.DELIBERATE) and "vllm" in frames[-1].file:
        said = str(error) or f"an assertion at {frames[-1].file.rpartition('/')[2]}:{frames[-1].line}"
        return {"tag": "synthetic", "words": [f"the planner refuses: {seat.clip(said)}"], "flags": []}
    return seat.worker_level(f"the planner could not be asked: {type(error).__name__}: {seat.clip(str(error))}")


def plan(engine: Engine, config: Any, specs: dict[str, Any] | None = None) -> Any:
    """The KVCacheConfig that the target's own planner makes of these specs, or of the case's."""
    planner = planner_module()
    # A model's layers come in the order of their numbers; the planner deals them out to groups by it.
    ordered = dict(sorted((specs or of_one_size(engine)).items(), key=lambda item: numbers(item[0])))
    return plan_groups(config, planner.get_kv_cache_groups(config, ordered))


def of_one_size(engine: Engine) -> dict[str, Any]:
    """The specs with blocks of one size where layers have heads: it is the planner who makes some grow."""
    heads = {name: spec for name, spec in engine.specs.items() if headed(engine, spec)}
    smallest = min((spec.block_size for spec in heads.values()), default=0)
    grown = {name: spec for name, spec in heads.items() if spec.block_size != smallest}
    return {**engine.specs, **{name: spec.copy_with_new_block_size(smallest) for name, spec in grown.items()}}


def plan_groups(config: Any, groups: list[Any]) -> Any:
    """The KVCacheConfig that the target's own planner makes of these groups."""
    return planner_module().get_kv_cache_config_from_groups(config, groups, MEMORY)


def numbers(name: str) -> list[int]:
    """Key that sorts layers as a model has them; within a layer the case's order stays."""
    return [int(piece) for piece in re.findall(r"\d+", name)]


def order_of(engine: Engine, config: Any) -> list[str]:
    """Layers in the order in which the target would hand their caches to the connector, some of whose rules go by it.

    That is the order of the planner's tensors, or of its groups in releases with a tensor for each set of layers that
    share pages; for the case's groups where the planner makes others.
    """
    for planned in (lambda: plan(engine, config), lambda: plan_groups(config, engine.cache_config.kv_cache_groups)):
        try:
            found = planned()
        except Exception:
            continue
        if not grouping(engine, found):
            return list(planned_places(engine, found)) if has_layers(found) else by_group(found)
    return list(engine.specs)


def has_layers(planned: Any) -> bool:
    """Whether the plan has tensors that list layers, from which the target makes the views one tensor after another."""
    return any(hasattr(tensor, "layers") for tensor in planned.kv_cache_tensors)


def by_group(planned: Any) -> list[str]:
    """Layers of a plan, group after group."""
    return [name for group in planned.kv_cache_groups for name in group.layer_names]


def planner_module() -> ModuleType:
    """The module that plans in this release."""
    for name in PLANNERS:
        try:
            found = importlib.import_module(name)
        except ModuleNotFoundError:
            continue
        if hasattr(found, "get_kv_cache_config_from_groups"):
            return found
    raise ModuleNotFoundError("this release has no planner where others do")


def grouping(engine: Engine, planned: Any) -> list[str]:
    """In what the planner's groups differ from the case's."""
    ours = {frozenset(group.layer_names) for group in engine.cache_config.kv_cache_groups}
    theirs = {frozenset(group.layer_names) for group in planned.kv_cache_groups}
    if ours != theirs:
        return [f"the planner's groups are {listed(theirs)}, not {listed(ours)}"]
    for group in planned.kv_cache_groups:
        for name in group.layer_names:
            spec = getattr(group.kv_cache_spec, "kv_cache_specs", {name: group.kv_cache_spec})[name]
            given = engine.specs[name]
            if (spec.block_size, spec.page_size_bytes) != (given.block_size, given.page_size_bytes):
                return [
                    f"the planner makes blocks of {spec.block_size} tokens and {spec.page_size_bytes} B of {name}, "
                    f"not {given.block_size} and {given.page_size_bytes}"
                ]
    return []


def placed_as_grouped(engine: Engine, config: Any) -> str:
    """What the planner makes of the case's own groups, where it would not group so."""
    try:
        planned = plan_groups(config, engine.cache_config.kv_cache_groups)
    except Exception as error:
        return f"given the case's groups, it says {type(error).__name__}: {seat.clip(str(error))}"
    return f"given the case's groups, {placing(engine, planned) or 'it places them as the case does'}"


def listed(groups: set[frozenset[str]]) -> str:
    """Groups of layers as words, in an order."""
    return " | ".join(sorted(" ".join(sorted(group)) for group in groups))


def placing(engine: Engine, planned: Any) -> str | None:
    """In what the planner's places differ from the case's, seen from layer to layer."""
    ours, theirs = case_places(engine), planned_places(engine, planned)
    for name, place in ours.items():
        if name not in theirs:
            return f"the planner gives {name} no place"
        if place.stride != theirs[name].stride:
            return f"the planner puts blocks of {name} {theirs[name].stride} B apart, not {place.stride}"
    count = engine.cache_config.num_blocks
    for first, second in itertools.combinations(ours, 2):
        here, there = (relation(found[first], found[second], count) for found in (ours, theirs))
        if here != there:
            return f"the planner puts {second} {said(there)} {first}, not {said(here)}"
    return None


def case_places(engine: Engine) -> dict[str, Place]:
    """Where the case has each layer's blocks."""
    places = {}
    for layer in engine.worker.layers.values():
        pages = engine.worker.groups[layer.group].pages_per_block
        whole = layer.page_stride * (pages - 1) + layer.page_bytes
        places[layer.name] = Place(layer.storage, layer.offset, layer.page_stride * pages, whole)
    return places


def planned_places(engine: Engine, planned: Any) -> dict[str, Place]:
    """Where the planner has each layer's blocks. One allocation, or in older releases one a tensor but for rows."""
    pages = {name: spec.page_size_bytes for name, spec in engine.specs.items()}
    places = {}
    for number, tensor in enumerate(planned.kv_cache_tensors):
        if hasattr(tensor, "layers"):
            for ordinal, name in enumerate(tensor.layers):
                offset = tensor.offset + ordinal * tensor.layer_stride
                places[name] = Place(0, offset, tensor.block_stride, pages[name])
            continue
        packed = getattr(tensor, "block_stride", None)
        for name in tensor.shared_by:
            place = (
                Place(0, tensor.offset or 0, packed, pages[name])
                if packed
                else Place(number, 0, pages[name], pages[name])
            )
            places[name] = place
    return places


def relation(first: Place, second: Place, blocks: int) -> int | None:
    """Bytes from one layer's start to the other's; None if the one ends before the other starts."""
    if first.allocation != second.allocation:
        return None
    ends = [place.offset + place.stride * (blocks - 1) + place.page for place in (first, second)]
    apart = ends[0] <= second.offset or ends[1] <= first.offset
    return None if apart else second.offset - first.offset


def said(distance: int | None) -> str:
    """A relation in words."""
    return "apart from" if distance is None else f"{distance} B behind the start of"


def backend_for(engine: Engine, config: Any) -> tuple[list[str], str]:
    """Flags with a real attention backend that would give the case's kernel pages, and why, or why there are none."""
    registry = importlib.import_module("vllm.v1.attention.backends.registry").AttentionBackendEnum
    choose = importlib.import_module("vllm.v1.worker.utils").select_common_block_size
    specs = [
        engine.specs[layer.name]
        for layer in engine.worker.layers.values()
        if engine.worker.groups[layer.group].kind in TOKEN_KINDS
    ]
    takers = {name: backend for name, backend in backends(registry, engine.use_mla) if takes(backend, specs, registry)}
    if not takers:
        heads = " and ".join(sorted({f"{spec.head_size} numbers of {spec.dtype}" for spec in specs}))
        windows = " and windows" if any(windowed(spec) for spec in specs) else ""
        return [], f"no backend that imports here has {'MLA ' if engine.use_mla else ''}heads of {heads}{windows}"
    reasons = []
    for name, backend in takers.items():
        layouts = getattr(backend, "supported_kv_cache_layouts", lambda: None)()
        if layouts and engine.layout not in [layout.name for layout in layouts]:
            reasons.append(f"{name} does not declare layout {engine.layout}")
            continue
        try:
            chosen = choose(engine.block_tokens, [backend])
        except ValueError as error:
            reasons.append(f"{name}: {error}")
            continue
        if chosen != engine.kernel_tokens:
            reasons.append(f"{name} makes kernel pages of {chosen} tokens of blocks of {engine.block_tokens}")
            continue
        size, why = flag_for(engine, config, backend)
        if size is None:
            reasons.append(f"{name} {why}")
        else:
            found = flags(engine, size, name, layout_flag(engine, config, backend)[0])
            pages = f"kernel pages of {chosen} tokens for blocks of {engine.block_tokens}"
            return found, f"{name} takes these kernel pages: {pages}"
    return [], "; ".join(reasons)


def flag_for(engine: Engine, config: Any, backend: Any) -> tuple[int | None, str | None]:
    """The block size flag with which the target's engine makes the case's geometry, or why there is none."""
    groups = engine.worker.groups.values()
    sizes = sorted({group.block_tokens for group in groups if group.kind in TOKEN_KINDS})
    if len(sizes) > 1 and not all(headed(engine, spec) for spec in engine.specs.values()):
        return None, f"has one block size flag, and blocks of {sizes} tokens are not known to follow from it"
    reasons = [otherwise(engine, config, backend, size) for size in sizes]
    return next(((size, None) for size, why in zip(sizes, reasons, strict=True) if why is None), (None, reasons[0]))


def otherwise(engine: Engine, config: Any, backend: Any, size: int) -> str | None:
    """What keeps the target's engine from making the case's geometry with this backend and block size flag."""
    if not backend.supports_block_size(size):
        return f"does not take blocks of {size}"
    try:
        planned = plan(engine, config, customized(modelled(engine, backend, size), backend))
    except Exception as error:
        return f"with blocks of {size} does not get past the planner: {type(error).__name__}: {seat.clip(str(error))}"
    if changed := [*grouping(engine, planned), *filter(None, [placing(engine, planned)])]:
        return f"with blocks of {size} leads elsewhere: {changed[0]}"
    return layout_flag(engine, config, backend)[1] or unmade(engine, planned, backend)


def backends(registry: Any, mla: bool) -> list[tuple[str, Any]]:
    """Backend classes of the target that import here, for MLA or for heads."""
    found = [(name, importable(registry, name)) for name in BACKENDS]
    return [(name, backend) for name, backend in found if backend is not None and backend.is_mla() == mla]


def takes(backend: Any, specs: list[Any], registry: Any) -> bool:
    """Whether a backend takes the heads of all layers, and their windows.

    A backend that takes any head size does not make up a model that has it: MLA sizes must be declared by some backend.
    """
    known = {size for _, other in backends(registry, True) for size in other.get_supported_head_sizes()}
    return all(
        spec.dtype == torch.bfloat16
        and backend.supports_head_size(spec.head_size)
        and (not backend.is_mla() or spec.head_size in known)
        and (not windowed(spec) or has_windows(backend))
        for spec in specs
    )


def windowed(spec: Any) -> bool:
    """Whether a layer sees a window only."""
    return getattr(spec, "sliding_window", None) is not None


def has_windows(backend: Any) -> bool:
    """Whether a backend says that it has windows. 0.25.0 does not ask them; MLA ones refuse windows there, too."""
    return bool(getattr(backend, "supports_sliding_window", lambda: not backend.is_mla())())


def importable(registry: Any, name: str) -> Any:
    """A backend class of the target, or None where it needs what is not here."""
    try:
        return registry[name].get_class()
    except Exception:
        return None


def flags(engine: Engine, size: int, backend: str, layout: str | None) -> list[str]:
    """What to launch this side with. An engine has one block size flag; blocks of other sizes follow from it."""
    side = "P" if engine.worker.role == "producer" else "D"
    found = [f"{side}: --block-size {size}", f"{side}: --attention-backend {backend}"]
    return [*found, f"{side}: {VARIABLE}={layout}"] if layout else found
