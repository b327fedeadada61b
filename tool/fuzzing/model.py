# SPDX-License-Identifier: Apache-2.0
"""The model that both engines serve: layers in families, before either side has laid them out."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvproof.fuzzing.source import Source
from kvproof.spec.vocabulary import TOKEN_KINDS, Kind, Order, Part


@dataclass(frozen=True)
class Size:
    """How large random worlds get."""

    families: int
    layers: int
    page_tokens: int
    page_bytes: int
    unit_bytes: int
    tokens: int
    pages_per_block: int


TINY = Size(families=3, layers=2, page_tokens=3, page_bytes=8, unit_bytes=2, tokens=9, pages_per_block=3)
SMALL = Size(families=4, layers=3, page_tokens=4, page_bytes=24, unit_bytes=3, tokens=20, pages_per_block=3)
MEDIUM = Size(families=5, layers=4, page_tokens=8, page_bytes=64, unit_bytes=4, tokens=80, pages_per_block=4)

UNIT_MAJOR: Order = "unit-major"
STATE_MAJOR: Order = "state-major"

KINDS: tuple[tuple[Kind, int], ...] = (
    ("attention", 34), ("sliding", 20), ("ssm", 18), ("ring", 16), ("replicated-ssm", 12),
)  # fmt: skip


@dataclass(frozen=True)
class ModelLayer:
    """What a layer is on both sides. Layers of one family may share a group: equal kind and page tokens.

    ``page_tokens`` is a ring's capacity, and 1 where a page has no tokens. ``draft``: the producer's alone.
    """

    key: str
    family: int
    kind: Kind
    page_tokens: int
    tokens_per_state: int
    page_bytes: int
    parts: tuple[Part, ...]
    draft: bool = False


def draw_model(source: Source, size: Size) -> tuple[ModelLayer, ...]:
    """Layers of one to a few families; at least one that the consumer has too."""
    widths = [source.integer(1, size.page_bytes) for _ in range(source.integer(1, 2))]
    layers: list[ModelLayer] = []
    for family in range(source.integer(1, size.families)):
        kind = source.weighted(KINDS)
        page_tokens = source.integer(1, size.page_tokens) if kind in (*TOKEN_KINDS, "ring") else 1
        for _ in range(source.integer(1, size.layers)):
            key = f"layers.{len(layers)}"
            layers.append(draw_layer(source, size, key, family, kind, page_tokens, widths))
    # The first is never a draft layer, so that the consumer has one.
    return tuple(replace(layer, draft=index > 0 and source.chance(7)) for index, layer in enumerate(layers))


def draw_layer(
    source: Source, size: Size, key: str, family: int, kind: Kind, page_tokens: int, widths: list[int]
) -> ModelLayer:
    """A layer of a family. Pages often have one of a few widths, so that views of different layers alias exactly."""
    by_token = kind in TOKEN_KINDS
    tokens_per_state = 1
    if by_token and source.chance(40):
        tokens_per_state = source.choice([n for n in range(1, page_tokens + 1) if page_tokens % n == 0])
    states = page_tokens // tokens_per_state if by_token else 1
    parts: tuple[Part, ...] = ()
    if source.chance(55):
        count = source.integer(1, 3)
        parts = tuple(draw_part(source, size, f"part{index}") for index in range(count))
    least = sum(part.count * states * part.unit_bytes for part in parts)
    fitting = [width for width in widths if width >= max(least, 1)]
    if fitting and source.chance(70):
        page_bytes = source.choice(fitting)
    elif parts:
        page_bytes = least + source.rarely(35, 0, 4)
    else:
        page_bytes = source.integer(1, size.page_bytes)
    return ModelLayer(key, family, kind, page_tokens, tokens_per_state, page_bytes, parts)


def draw_part(source: Source, size: Size, name: str) -> Part:
    """A part. Mostly all of its units are held: the view is replicated."""
    units = source.integer(1, 3)
    first, count = 0, units
    if source.chance(15):
        first = source.integer(0, units - 1)
        count = source.integer(1, units - first)
    order = source.choice([UNIT_MAJOR, STATE_MAJOR])
    return Part(name, source.integer(1, size.unit_bytes), units, first, count, order)
