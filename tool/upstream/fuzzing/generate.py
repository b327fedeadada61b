# SPDX-License-Identifier: Apache-2.0
"""Random cases inside what vLLM's NIXL connectors support: constructed, never filtered."""

from __future__ import annotations

from kvproof.fuzzing.source import RandomSource, Source
from kvproof.spec.vocabulary import Case, Pool, Request, Role, Table, Worker
from kvproof.upstream.fuzzing.engines import Engine, place
from kvproof.upstream.fuzzing.models import STYLES
from kvproof.upstream.fuzzing.tables import draw_cached, draw_tables, draw_tokens


def case_of(seed: int, number: int) -> Case:
    """The case of a seed by its number."""
    return generate(RandomSource(f"upstream/{seed}/{number}"), f"upstream-{seed}-{number}")


def generate(source: Source, name: str = "upstream") -> Case:
    """A pair of engines of one style, and a request."""
    style = source.weighted(STYLES)
    producer, consumer = style(source)
    tokens = draw_tokens(source, (producer, consumer))
    held = draw_cached(source, consumer, tokens)
    cached = [held] * len(consumer.teams)
    if held and any(team.host for team in consumer.teams) and source.chance(60):
        # A group in host memory may have kept more than the others.
        block = consumer.teams[0].block_tokens
        cached[0] = min(held + block, tokens // block * block)
    theirs = draw_tables(source, producer, "producer", tokens, [0] * len(producer.teams))
    ours = draw_tables(source, consumer, "consumer", tokens, cached)
    return Case(
        format=1,
        name=name,
        title=f"drawn: {style.__name__}",
        request=Request(tokens),
        worker=(worker("producer", producer, *theirs), worker("consumer", consumer, *ours)),
    )


def worker(role: Role, engine: Engine, pools: tuple[Pool, ...], tables: dict[str, Table]) -> Worker:
    """One side of the case."""
    storages, layers = place(engine, {pool.name: pool.blocks for pool in pools})
    return Worker(
        name="P0" if role == "producer" else "D0",
        role=role,
        storages=storages,
        pools=pools,
        groups=engine.groups(),
        layers=layers,
        tables=tables,
    )
