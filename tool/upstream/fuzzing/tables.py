# SPDX-License-Identifier: Apache-2.0
"""Block tables as the scheduler of vLLM makes them: whole blocks cover the prompt, given-up ones are null (id 0)."""

from __future__ import annotations

from math import lcm

from kvproof.fuzzing.source import Source
from kvproof.spec.cells import first_needed_token
from kvproof.spec.vocabulary import Pool, Role, Table
from kvproof.upstream.fuzzing.engines import Engine, Team

NULL = 0
"""vLLM's null block: the first id of every pool."""

FRESH = -1
"""Stands for a block until ids are dealt."""

TOKENS_LIMIT = 640


def draw_tokens(source: Source, engines: tuple[Engine, ...]) -> int:
    """A prompt: mostly off the boundaries of pages and blocks."""
    teams = [team for engine in engines for team in engine.teams if team.cache.by_token]
    units = [team.cache.page_tokens for team in teams] + [team.block_tokens for team in teams]
    unit = source.choice(sorted(set(units))) if units else 8
    tokens = unit * source.integer(1, max(1, min(7, TOKENS_LIMIT // unit)))
    if unit > 1 and not source.chance(25):
        tokens -= source.integer(1, unit - 1)
    return tokens


def draw_cached(source: Source, engine: Engine, tokens: int) -> int:
    """What the consumer has in its prefix cache: whole blocks of all its groups alike, seldom the whole prompt."""
    unit = lcm(*(team.block_tokens for team in engine.teams if team.cache.by_token))
    most = tokens // unit if source.chance(6) else (tokens - 1) // unit
    return source.integer(1, most) * unit if most and source.chance(45) else 0


def draw_tables(
    source: Source, engine: Engine, role: Role, tokens: int, cached: list[int]
) -> tuple[tuple[Pool, ...], dict[str, Table]]:
    """Pools and tables of one side; ``cached`` tokens for each group."""
    listed = [_blocks(source, team, role, tokens, held) for team, held in zip(engine.teams, cached, strict=True)]
    pools, tables = [], {}
    for pool in sorted({team.pool for team in engine.teams}):
        inside = [number for number, team in enumerate(engine.teams) if team.pool == pool]
        wanted = sum(listed[number].count(FRESH) for number in inside)
        blocks = 1 + wanted + source.integer(0, 5)
        ids = list(range(1, blocks))
        if source.chance(75):
            ids = source.shuffled(ids)
        pools.append(Pool(pool, blocks, NULL))
        for number in inside:
            names = tuple(ids.pop(0) if block == FRESH else block for block in listed[number])
            tables[f"g{number}"] = _table(source, engine.teams[number], role, names, cached[number])
    return tuple(pools), dict(sorted(tables.items(), key=lambda item: int(item[0][1:])))


def _blocks(source: Source, team: Team, role: Role, tokens: int, cached: int) -> tuple[int, ...]:
    """The blocks of a group: FRESH or NULL, by ordinal or by slot."""
    if not team.cache.by_token:
        before = source.integer(1, 2) if team.cache.kind == "ssm" and source.chance(8) else 0
        return (NULL,) * before + (FRESH,)
    count = -(-tokens // team.block_tokens)
    given_up = 0
    if team.cache.window is not None:
        # What no later token looks back at. A producer may not have come round to giving it up.
        given_up = max(0, int(first_needed_token(0, tokens, team.cache.window, 0))) // team.block_tokens
        if role == "producer" and source.chance(50):
            given_up = source.integer(0, given_up)
    return (NULL,) * given_up + (FRESH,) * (count - given_up)


def _table(source: Source, team: Team, role: Role, blocks: tuple[int, ...], cached: int) -> Table:
    held = cached if role == "consumer" and cached else None
    if not team.cache.by_token:
        return Table(blocks, 0, held, len(blocks) - 1 if len(blocks) > 1 else None)
    nulls = next((index for index, block in enumerate(blocks) if block != NULL), len(blocks))
    if nulls and source.chance(40):
        return Table(blocks[nulls:], nulls, held)
    return Table(blocks, 0, held)
