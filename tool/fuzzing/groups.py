# SPDX-License-Identifier: Apache-2.0
"""How each side groups the model's layers: which share a block table, in which pool, in blocks of how many pages."""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from kvproof.fuzzing.model import ModelLayer, Size
from kvproof.fuzzing.source import Source
from kvproof.spec.vocabulary import TOKEN_KINDS, Group


@dataclass(frozen=True)
class Grouped:
    """A group of one side: its layers (indices into the model), its pool, and itself."""

    layers: tuple[int, ...]
    pool: int
    group: Group

    @property
    def by_token(self) -> bool:
        return self.group.kind in TOKEN_KINDS

    @property
    def block_tokens(self) -> int:
        return self.group.block_tokens or 1

    @property
    def page_tokens(self) -> int:
        return self.block_tokens // self.group.pages_per_block


def draw_groups(
    source: Source, size: Size, model: tuple[ModelLayer, ...], like: tuple[Grouped, ...] = ()
) -> tuple[Grouped, ...]:
    """One side's groups. Given the other side's, half of the time the same layers stand together."""
    families: dict[tuple[int, int], list[int]] = {}
    mirror = {index: number for number, group in enumerate(like) for index in group.layers}
    same = bool(like) and source.chance(55)
    for index, layer in enumerate(model):
        label = mirror[index] if same else source.rarely(40, 0, 2)
        families.setdefault((layer.family, label), []).append(index)
    pools = source.rarely(35, 1, 3)
    groups = [draw_group(source, size, model, layers, pools) for layers in families.values()]
    if source.chance(3):
        groups.append(replace(draw_group(source, size, model, [0], pools), layers=()))
    # The pools that no group uses go.
    used = sorted({group.pool for group in groups})
    return tuple(
        replace(
            group,
            pool=used.index(group.pool),
            group=msgspec.structs.replace(group.group, name=f"g{number}", pool=f"pool{used.index(group.pool)}"),
        )
        for number, group in enumerate(source.shuffled(groups))
    )


def draw_group(source: Source, size: Size, model: tuple[ModelLayer, ...], layers: list[int], pools: int) -> Grouped:
    """A group for these layers, which are of one family."""
    layer = model[layers[0]]
    pool = source.integer(0, pools - 1)
    per_block = source.integer(1, size.pages_per_block) if layer.kind in TOKEN_KINDS else 1
    window = retained = None
    if layer.kind == "sliding":
        window = source.integer(1, max(2, size.tokens // 2))
        retained = source.rarely(30, 0, 4)
    group = Group(
        name="g",
        kind=layer.kind,
        pool="pool",
        block_tokens=layer.page_tokens * per_block if layer.kind in (*TOKEN_KINDS, "ring") else None,
        pages_per_block=per_block,
        window_tokens=window,
        retained_tokens=retained or 0,
    )
    return Grouped(tuple(layers), pool, group)
