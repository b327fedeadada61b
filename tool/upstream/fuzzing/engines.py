# SPDX-License-Identifier: Apache-2.0
"""One engine of a generated pair: how it groups the layers of a model, and where their pages lie.

Layouts are those that vLLM knows: *rows*, one row a block that holds a page of every layer of a group, groups over one
another; *layers*, one run of blocks a layer, layer i of every group over one another; *own*, the same with a storage
for each run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import lcm
from typing import Literal

from kvproof.spec.vocabulary import TOKEN_KINDS, Group, Kind, Layer, Memory, Part, Storage

Layout = Literal["rows", "layers", "own"]


@dataclass(frozen=True)
class Cache:
    """What a layer keeps. ``page_tokens`` is a ring's capacity, and 1 for ssm kinds; ``page_bytes`` counts padding."""

    kind: Kind
    page_tokens: int
    page_bytes: int
    parts: tuple[Part, ...] = ()
    tokens_per_state: int = 1
    window: int | None = None

    @property
    def by_token(self) -> bool:
        return self.kind in TOKEN_KINDS


@dataclass(frozen=True)
class Member:
    """A layer of the model."""

    name: str
    cache: Cache


@dataclass(frozen=True)
class Team:
    """A group of an engine: its layers, how many pages a block has, and whether it lives in host memory."""

    members: tuple[Member, ...]
    per_block: int = 1
    host: bool = False

    @property
    def cache(self) -> Cache:
        """What all members have in common, but for the page's bytes."""
        return self.members[0].cache

    @property
    def block_tokens(self) -> int:
        """Tokens of a block; 1 for ssm kinds, whose blocks have none."""
        return self.cache.page_tokens * self.per_block

    @property
    def pool(self) -> str:
        return "host" if self.host else "device"

    def named(self, name: str) -> Group:
        """The group as the case says it."""
        kind = self.cache.kind
        tokens = self.block_tokens if kind in (*TOKEN_KINDS, "ring") else None
        return Group(name, kind, self.pool, tokens, self.per_block, self.cache.window)


@dataclass(frozen=True)
class Engine:
    """The groups of one side, and their layout. ``alignment`` of a row or of a block's bytes; ``tail`` bytes behind."""

    teams: tuple[Team, ...]
    layout: Layout = "layers"
    alignment: int = 1
    tail: int = 0

    def groups(self) -> tuple[Group, ...]:
        """All groups, named by their place."""
        return tuple(team.named(f"g{number}") for number, team in enumerate(self.teams))


def place(engine: Engine, blocks: dict[str, int]) -> tuple[tuple[Storage, ...], tuple[Layer, ...]]:
    """Storages and layers of the engine; ``blocks``: how many each pool has."""
    storages: list[Storage] = []
    layers: list[Layer] = []
    for pool, memory in _memories(engine):
        teams = [(f"g{number}", team) for number, team in enumerate(engine.teams) if team.pool == pool]
        where = _rows if engine.layout == "rows" else _runs
        found, inside = where(engine, teams, pool, memory, blocks[pool])
        storages += found
        layers += inside
    if not any(team.cache.kind == "ring" for team in engine.teams):
        # vLLM goes through the layers by name; where there are rings, group by group.
        layers.sort(key=lambda layer: _numbers_as_numbers(layer.name))
    return tuple(storages), tuple(layers)


def _numbers_as_numbers(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sorts layers.2 before layers.10."""
    return tuple((0, int(bit), "") if bit.isdigit() else (1, 0, bit) for bit in re.split(r"(\d+)", name))


def _memories(engine: Engine) -> Iterator[tuple[str, Memory]]:
    if not all(team.host for team in engine.teams):
        yield "device", "VRAM"
    if any(team.host for team in engine.teams):
        yield "host", "DRAM"


def _rows(
    engine: Engine, teams: list[tuple[str, Team]], pool: str, memory: Memory, blocks: int
) -> tuple[list[Storage], list[Layer]]:
    """One storage of rows; a group's pages stand one after the other in the row."""
    row = max(sum(_block_bytes(team, member) for member in team.members) for _, team in teams)
    row = _round_up(row, lcm(engine.alignment, *(team.per_block for _, team in teams)))
    layers = []
    for name, team in teams:
        offset = 0
        for member in team.members:
            layers.append(_layer(member, name, pool, offset, row // team.per_block))
            offset += _block_bytes(team, member)
    return [Storage(pool, row * blocks + engine.tail, memory)], layers


def _runs(
    engine: Engine, teams: list[tuple[str, Team]], pool: str, memory: Memory, blocks: int
) -> tuple[list[Storage], list[Layer]]:
    """Runs of blocks one after the other, in one storage or in one each."""
    storages: list[Storage] = []
    layers, start = [], 0
    for slot in range(max(len(team.members) for _, team in teams)):
        here = [(name, team, team.members[slot]) for name, team in teams if slot < len(team.members)]
        pitch = max(_block_bytes(team, member) for _, team, member in here)
        pitch = _round_up(pitch, lcm(engine.alignment, *(team.per_block for _, team, _ in here)))
        storage = f"{pool}{slot}" if engine.layout == "own" else pool
        layers += [_layer(member, name, storage, start, pitch // team.per_block) for name, team, member in here]
        if engine.layout == "own":
            storages.append(Storage(storage, pitch * blocks + engine.tail, memory))
        else:
            start += pitch * blocks
    if engine.layout != "own":
        storages.append(Storage(pool, start + engine.tail, memory))
    order = {name: rank for rank, (name, _) in enumerate(teams)}
    return storages, sorted(layers, key=lambda layer: order[layer.group])


def _block_bytes(team: Team, member: Member) -> int:
    return member.cache.page_bytes * team.per_block


def _layer(member: Member, group: str, storage: str, offset: int, stride: int) -> Layer:
    cache = member.cache
    return Layer(
        name=member.name,
        group=group,
        storage=storage,
        offset=offset,
        page_bytes=cache.page_bytes,
        page_stride=stride,
        tokens_per_state=cache.tokens_per_state,
        parts=cache.parts,
    )


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
