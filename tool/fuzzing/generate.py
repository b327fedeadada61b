# SPDX-License-Identifier: Apache-2.0
"""Random cases in scope, built and never filtered: each is well-formed and has a lawful plan."""

from __future__ import annotations

from kvproof.fuzzing.groups import Grouped, draw_groups
from kvproof.fuzzing.layout import Habits, draw_habits, draw_storages
from kvproof.fuzzing.model import SMALL, ModelLayer, Size, draw_model
from kvproof.fuzzing.requests import Listed, deal, draw_cached, draw_table, first_needed
from kvproof.fuzzing.source import Source
from kvproof.spec.vocabulary import Case, Request, Role, Worker


def generate(source: Source, size: Size = SMALL, name: str = "fuzz") -> Case:
    """A case: a pair of workers and, mostly, a request."""
    model = draw_model(source, size)
    kept = tuple(layer for layer in model if not layer.draft)
    theirs = draw_groups(source, size, model)
    like = tuple(
        Grouped(tuple(kept.index(model[i]) for i in g.layers if not model[i].draft), g.pool, g.group) for g in theirs
    )
    ours = draw_groups(source, size, kept, like)
    habits = draw_habits(source, model)
    drawn = draw_habits(source, kept, without_drafts(habits, model))
    tokens = None if source.chance(6) else source.integer(1, size.tokens)
    source_tables: list[Listed | None] = [None for _ in theirs]
    target_tables: list[Listed | None] = [None for _ in ours]
    source_holes = {group.pool: source.chance(35) for group in theirs}
    target_holes = {group.pool: source.chance(35) for group in ours}
    if tokens is not None:
        needed: dict[str, int] = {}
        for number, group in enumerate(ours):
            cached = draw_cached(source, group, tokens)
            if group.by_token:
                low = first_needed(group, cached, tokens)
            else:
                low = 0 if (cached or 0) < tokens else tokens
            if not group.layers:
                low = tokens  # nobody asks how far its table reaches
            target_tables[number] = draw_table(source, group, low, tokens, target_holes[group.pool], cached)
            needed.update({kept[layer].key: low for layer in group.layers})
        for number, group in enumerate(theirs):
            low = min((needed.get(model[layer].key, tokens) for layer in group.layers), default=tokens)
            source_tables[number] = draw_table(source, group, low, tokens, source_holes[group.pool], None)
    producer = draw_worker(source, "producer", model, theirs, source_tables, source_holes, habits)
    consumer = draw_worker(source, "consumer", kept, ours, target_tables, target_holes, drawn)
    request = Request(tokens) if tokens is not None else None
    return Case(format=1, name=name, worker=(producer, consumer), request=request)


def without_drafts(habits: Habits, model: tuple[ModelLayer, ...]) -> Habits:
    """The habits by the consumer's layer numbers: it has no draft layers."""
    kept = [index for index, layer in enumerate(model) if not layer.draft]
    return Habits(
        {new: habits.frames[old] for new, old in enumerate(kept)},
        {new: habits.order[old] for new, old in enumerate(kept)},
        {new: habits.gaps[old] for new, old in enumerate(kept)},
        habits.paddings[: len(kept)],
    )


def draw_worker(
    source: Source,
    role: Role,
    model: tuple[ModelLayer, ...],
    groups: tuple[Grouped, ...],
    listed: list[Listed | None],
    holes: dict[int, bool],
    habits: Habits,
) -> Worker:
    """One side, with pools, storages and tables."""
    pools, tables = deal(source, groups, listed, holes)
    storages, layers = draw_storages(source, model, groups, pools, habits)
    return Worker(
        name="P0" if role == "producer" else "D0",
        role=role,
        storages=storages,
        pools=pools,
        groups=tuple(group.group for group in groups),
        layers=layers,
        tables=tables,
    )
