# SPDX-License-Identifier: Apache-2.0
"""How one side lays its layers out in storages.

A *frame* is a run of equal pitches, one a block of a pool. Every group with layers in the frame cuts the pitch into
its pages' strides and lays its layers side by side in the first of them; different groups lie over each other. A
frame of everything is a packed row, one frame a layer is layer-outer; and everything between.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import lcm

from kvproof.fuzzing.groups import Grouped
from kvproof.fuzzing.model import ModelLayer
from kvproof.fuzzing.source import Source
from kvproof.spec.vocabulary import Layer, Pool, Storage


@dataclass
class Frame:
    """Layers (indices into the model) in the order they lie; ``lead`` bytes stand before the first pitch."""

    pool: int
    layers: list[int]
    padding: int = 0
    lead: int = 0
    base: int = 0
    pitch: int = 0
    offsets: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Habits:
    """What the two sides often have in common: which frame a layer goes to, the order, the gap before each."""

    frames: dict[int, int]
    order: dict[int, int]
    gaps: dict[int, int]
    paddings: tuple[int, ...]


def draw_habits(source: Source, model: tuple[ModelLayer, ...], like: Habits | None = None) -> Habits:
    """A side's habits; given the other side's, often the same, or the same but for one gap."""
    if like is not None and source.chance(55):
        gaps = dict(like.gaps)
        if source.chance(25):
            gaps[source.integer(0, len(model) - 1)] = source.integer(0, 3)
        return Habits(like.frames, like.order, gaps, like.paddings)
    count = len(model)
    style = source.weighted([("packed", 40), ("own", 15), ("outer", 25), ("mixed", 20)])
    if style == "packed":
        frames = dict.fromkeys(range(count), 0)
    elif style == "own":
        frames = {index: index for index in range(count)}
    elif style == "outer":
        frames = {
            index: sum(model[other].family == model[index].family for other in range(index)) for index in range(count)
        }
    else:
        frames = {index: source.integer(0, 2) for index in range(count)}
    order = list(range(count)) if source.chance(60) else source.shuffled(range(count))
    gaps = {index: source.rarely(15, 0, 3) for index in range(count)}
    paddings = tuple(source.rarely(30, 0, 2) for _ in range(count))
    return Habits(frames, {layer: rank for rank, layer in enumerate(order)}, gaps, paddings)


def draw_storages(
    source: Source,
    model: tuple[ModelLayer, ...],
    groups: tuple[Grouped, ...],
    pools: tuple[Pool, ...],
    habits: Habits,
) -> tuple[tuple[Storage, ...], tuple[Layer, ...]]:
    """Storages, and the layers in them."""
    homes = {layer: group for group in groups for layer in group.layers}
    frames: dict[tuple[int, int], Frame] = {}
    for layer in sorted(homes, key=habits.order.__getitem__):
        label = (homes[layer].pool, habits.frames[layer])
        frame = frames.setdefault(label, Frame(label[0], [], habits.paddings[label[1] % len(model)]))
        frame.layers.append(layer)
    together = source.choice(["apart", "apart", "some", "all"])
    storages: list[list[Frame]] = []
    for frame in frames.values():
        measure(frame, model, homes, habits)
        frame.lead = source.rarely(10, 0, 4)
        if storages and (together == "all" or (together == "some" and source.chance(50))):
            source.choice(storages).append(frame)
        else:
            storages.append([frame])
    built = [draw_storage(source, number, inside, model, homes, pools) for number, inside in enumerate(storages)]
    spare = [Storage("spare", source.integer(1, 8), "DRAM")] if source.chance(4) else []
    layers = {layer.match_key: layer for _, inside in built for layer in inside}
    shuffled = source.shuffled(sorted(layers)) if source.chance(50) else sorted(layers)
    storage_order = source.shuffled([storage for storage, _ in built])
    return (*storage_order, *spare), tuple(layers[key] for key in shuffled)


def measure(frame: Frame, model: tuple[ModelLayer, ...], homes: dict[int, Grouped], habits: Habits) -> None:
    """The offsets of the frame's layers in their strides, and its pitch: all strides fit."""
    widths: dict[str, int] = {}
    divisor, least = 1, 0
    for layer in frame.layers:
        group = homes[layer].group
        frame.offsets[layer] = widths.get(group.name, 0) + habits.gaps[layer]
        widths[group.name] = frame.offsets[layer] + model[layer].page_bytes
        divisor = lcm(divisor, group.pages_per_block)
        least = max(least, widths[group.name] * group.pages_per_block)
    frame.pitch = (-(-least // divisor) + frame.padding) * divisor


def draw_storage(
    source: Source,
    number: int,
    frames: list[Frame],
    model: tuple[ModelLayer, ...],
    homes: dict[int, Grouped],
    pools: tuple[Pool, ...],
) -> tuple[Storage, list[Layer]]:
    """A storage that holds these frames one after the other."""
    name = source.weighted([(f"s{number}", 95), (f'cache/{number} "é" #', 5)])
    end = last = 0
    layers = []
    for frame in frames:
        frame.base = end + frame.lead
        end = frame.base + pools[frame.pool].blocks * frame.pitch
        for index in frame.layers:
            layer = placed(frame, index, model[index], homes[index], name)
            pages = pools[frame.pool].blocks * homes[index].group.pages_per_block
            last = max(last, layer.offset + (pages - 1) * layer.page_stride + layer.page_bytes)
            layers.append(layer)
    size = source.weighted([("full", 60), ("tight", 20), ("tail", 20)])
    if size == "tight":
        end = last
    elif size == "tail":
        end += source.integer(1, 9)
    return Storage(name, end, source.choice(["VRAM", "DRAM"])), layers


def placed(frame: Frame, index: int, layer: ModelLayer, home: Grouped, storage: str) -> Layer:
    """The layer as a view of the storage."""
    return Layer(
        name=f"model.{layer.key}" if index % 3 == 2 else layer.key,
        key=layer.key if index % 3 == 2 else None,
        group=home.group.name,
        storage=storage,
        offset=frame.base + frame.offsets[index],
        page_bytes=layer.page_bytes,
        page_stride=frame.pitch // home.group.pages_per_block,
        tokens_per_state=layer.tokens_per_state,
        parts=layer.parts,
    )
