# SPDX-License-Identifier: Apache-2.0
"""Models such as vLLM serves, and the engines that serve them: a style each, made so that vLLM takes the pair."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kvproof.fuzzing.source import Source
from kvproof.spec.vocabulary import Kind, Part
from kvproof.upstream.fuzzing.engines import Cache, Engine, Layout, Member, Team

Pair = tuple[Engine, Engine]
"""Producer and consumer."""

Style = Callable[[Source], Pair]

REAL_PERCENT = 30
"""So many cases in a hundred have pages as real backends take them: large, but a user can reach them."""


def dense(source: Source) -> Pair:
    """Attention alone, in one group: with heads or without (MLA), an indexer beside it now and then."""
    scale = draw_scale(source, 65)
    main = draw_attention(source, scale)
    names = draw_numbers(source, source.integer(1, 4))
    members = [Member(f"model.layers.{i}.self_attn.attn", main) for i in names]
    index: list[Member] = []
    if scale.mla and source.chance(45):
        indexer = draw_attention(source, scale)
        index = [Member(f"model.layers.{i}.self_attn.indexer", indexer) for i in names]
    theirs, ours = draw_per_block(source, scale), draw_per_block(source, scale)
    producer = Engine((Team((*members, *index), theirs),), draw_layout(source))
    consumer = Engine((Team((*members, *index), ours),), draw_like(source, producer.layout, scale.mla))
    if index and source.chance(35):
        # The main pages in host memory, with block ids of their own.
        teams = (Team(tuple(members), ours, host=True), Team(tuple(index), ours))
        consumer = Engine(teams, "layers")
    elif scale.mla and source.chance(8) and len(members) > 1:
        # Groups that only an engine of another make would cut like this.
        consumer = replace(consumer, teams=tuple(Team((member,), ours) for member in (*members, *index)))
    return settle(source, producer, consumer)


def windows(source: Source) -> Pair:
    """Full attention and windows, all pages alike: layer i of every group lies over the others."""
    scale = draw_scale(source, 35)
    full = draw_attention(source, scale)
    near = replace(full, kind="sliding", window=draw_window(source, full.page_tokens))
    numbers = draw_numbers(source, source.integer(1, 7))
    every = source.integer(2, 4)
    members = [
        Member(f"model.layers.{number}.self_attn.attn", full if place % every == every - 1 else near)
        for place, number in enumerate(numbers)
    ]
    grouped = uniform([[m for m in members if m.cache is cache] for cache in (near, full)])
    theirs, ours = draw_per_block(source, scale), draw_per_block(source, scale)
    producer = Engine(tuple(Team(group, theirs) for group in grouped), draw_layout(source))
    consumer = Engine(tuple(Team(group, ours) for group in grouped), draw_like(source, producer.layout, scale.mla))
    return settle(source, producer, consumer)


def grown(source: Source) -> Pair:
    """Windows of twice the heads: blocks of full attention are grown to as many bytes, in one page or in two."""
    scale = draw_scale(source, 0)
    tokens = scale.page_tokens
    heads, unit = source.choice([2, 4]), draw_unit(source, scale)
    wide = Part("kv", unit, 2 * heads, 0, 2 * heads)
    slim = Part("kv", unit, heads, 0, heads)
    per_block = source.rarely(30, 1, 2)
    grown_tokens = tokens * 2 // per_block
    near = Cache("sliding", tokens, 2 * heads * unit * tokens, (wide,), window=draw_window(source, tokens))
    full = Cache("attention", grown_tokens, heads * unit * grown_tokens, (slim,))
    numbers = draw_numbers(source, source.integer(2, 6))
    members = [Member(f"model.layers.{n}.self_attn.attn", full if n % 2 else near) for n in numbers]
    teams = tuple(Team(tuple(m for m in members if m.cache is c), p) for c, p in ((near, 1), (full, per_block)))
    engine = Engine(tuple(team for team in teams if team.members), source.choice(["layers", "own"]))
    return engine, engine


def packed(source: Source) -> Pair:
    """Rows: windows, compressed attention with an indexer, rings over them, pages of unequal length."""
    scale = draw_scale(source, 85)
    alignment = source.choice([1, 8, 16])
    near = aligned(draw_attention(source, scale, sliding=True), alignment)
    count = source.integer(1, 4)
    numbers = draw_numbers(source, count)
    times = source.choice([1, 1, 2, 4])
    ratio = source.choice([n for n in (1, 2, 4) if scale.page_tokens * times % n == 0])
    far = aligned(draw_attention(source, scale, times=times, ratio=ratio), alignment)
    index = aligned(draw_attention(source, scale, times=times, ratio=ratio), alignment)
    wide = source.choice([near.page_bytes, near.page_bytes * 2, max(near.page_bytes // 2, 1), far.page_bytes])
    ring = Cache("ring", source.choice([4, 8]), max(8, wide + source.choice([0, 0, 8, -8, 40])))
    bucket = [Member(f"model.layers.{n}.attn.swa_cache", near) for n in numbers]
    mains = [Member(f"model.layers.{n}.attn", far) for n in numbers[: source.integer(0, count)]]
    indexers = [Member(m.name + ".indexer", index) for m in mains] if scale.mla and source.chance(50) else []
    rings = [Member(f"model.layers.{n}.attn.compressor.state_cache", ring) for n in numbers[: source.integer(0, count)]]
    states: list[Member] = []
    if source.chance(15):
        tiny = Scale(True, False, source.choice([2, 4]))
        small = aligned(draw_attention(source, tiny, sliding=True), alignment)
        states = [Member(f"model.layers.{n}.attn.indexer.state_cache", small) for n in numbers[:1]]
    teams = pack([*mains, *indexers], [bucket, rings, states])
    engine = Engine(tuple(Team(group) for group in teams), "rows", alignment)
    if scale.mla and len(teams) == 1 and source.chance(15):
        return engine, replace(engine, layout=source.choice(["layers", "own"]))
    return engine, engine


def hybrid(source: Source) -> Pair:
    """Attention and recurrent states over one another, states padded to the block of attention."""
    scale = draw_scale(source, 40)
    attention = draw_attention(source, scale)
    slots = source.integer(1, 3)
    layout: Layout = "layers" if slots > 1 and source.chance(70) else "own"
    theirs = ours = draw_per_block(source, scale)
    if layout == "layers" and source.chance(40):
        ours = draw_per_block(source, scale)
    room = attention.page_bytes * min(theirs, ours)
    # A state shorter than its run's block, alone with attention in a storage, would look like a row.
    state = draw_state(source, room) if layout == "layers" else Cache("ssm", 1, room)
    numbers = draw_numbers(source, slots * 4)
    full = tuple(Member(f"model.layers.{n}.self_attn.attn", attention) for n in numbers[:slots])
    runs = [numbers[slots * k : slots * (k + 1)] for k in range(1, 1 + source.integer(1, 3))]
    if source.chance(25):
        runs[-1] = runs[-1][: source.integer(1, slots)]
    states = [tuple(Member(f"model.layers.{n}.mixer", state) for n in run) for run in runs]
    order = [full, *states] if source.chance(50) else [*states, full]
    engines = [
        Engine(tuple(Team(group, per if group is full else 1) for group in order), layout) for per in (theirs, ours)
    ]
    return settle(source, *engines)


def mixed(source: Source) -> Pair:
    """Attention, states, a replicated state and rings over one another, a storage for each run."""
    attention = draw_attention(source, draw_scale(source, 50))
    room = attention.page_bytes
    slots = source.integer(1, 4)
    numbers = draw_numbers(source, 4 * slots)
    wide = room + source.choice([0, 0, room // 2, -8]) if room > 8 else room
    groups = [
        tuple(Member(f"model.layers.{n}.self_attn.attn", attention) for n in numbers[:slots]),
        tuple(Member(f"model.layers.{n}.mixer", draw_state(source, room)) for n in numbers[slots : slots + 1]),
    ]
    replicated = source.chance(60)
    if replicated:
        groups.append((Member(f"model.layers.{numbers[0]}.ple", Cache("replicated-ssm", 1, wide)),))
    if replicated or source.chance(60):
        ring = Cache("ring", 8, room)
        rings = numbers[slots : slots + source.integer(1, slots)]
        groups.append(tuple(Member(f"model.layers.{n}.indexer.tail", ring) for n in rings))
    engine = Engine(tuple(Team(group) for group in groups), "own")
    return engine, engine


STYLES: tuple[tuple[Style, int], ...] = (
    (dense, 30), (windows, 20), (packed, 27), (hybrid, 15), (mixed, 3), (grown, 5),
)  # fmt: skip


@dataclass(frozen=True)
class Scale:
    """How large pages are. ``real``: as attention backends of vLLM take them; else small, so that cases are quick."""

    mla: bool
    real: bool
    page_tokens: int

    @property
    def splits(self) -> bool:
        """A kernel page may be less than a block. Real backends for heads take any multiple of 16 as a page."""
        return self.mla or not self.real


def draw_scale(source: Source, mla_percent: int) -> Scale:
    """With heads or without, and how large."""
    mla, real = source.chance(mla_percent), source.chance(REAL_PERCENT)
    if real:
        return Scale(mla, True, 64 if mla else 16)
    return Scale(mla, False, source.weighted([(16, 35), (64, 25), (32, 20), (8, 10), (4, 10)]))


def draw_per_block(source: Source, scale: Scale) -> int:
    """Pages of a block."""
    return source.weighted([(1, 45), (2, 33), (3, 22)]) if scale.splits else 1


def draw_numbers(source: Source, count: int) -> list[int]:
    """Numbers of consecutive layers, at times across nine and ten."""
    first = source.choice([0, 0, 8])
    return list(range(first, first + count))


def draw_layout(source: Source) -> Layout:
    """A layout for groups whose pages are alike."""
    return source.weighted([("layers", 55), ("own", 30), ("rows", 15)])


def draw_like(source: Source, layout: Layout, free: bool) -> Layout:
    """The other side's layout; often the same, and always where heads must lie alike."""
    if not free or source.chance(75):
        return layout
    return draw_layout(source)


def draw_window(source: Source, page_tokens: int) -> int:
    """A window: within a page, or over some, on a boundary or off it."""
    return max(2, page_tokens * source.integer(1, 4) + source.choice([0, 0, 1, -1, -page_tokens // 2]))


def draw_unit(source: Source, scale: Scale) -> int:
    """Bytes of a state's record, or of a head's: of 576 numbers of 16 bits, of K and V of 64 or 128."""
    if scale.real:
        return 1152 if scale.mla else source.choice([256, 512])
    return source.choice([8, 16, 24, 40])


def draw_attention(source: Source, scale: Scale, times: int = 1, ratio: int = 1, sliding: bool = False) -> Cache:
    """A page of attention: one record a state (or opaque), or heads. Of ``times`` as many tokens as pages have."""
    tokens = scale.page_tokens * times
    kind: Kind = "sliding" if sliding else "attention"
    window = draw_window(source, tokens) if sliding else None
    unit = draw_unit(source, scale)
    heads = 1 if scale.mla else source.choice([2, 4])
    part = Part("record" if scale.mla else "kv", unit, heads, 0, heads)
    opaque = scale.mla and ratio == 1 and source.chance(50)
    return Cache(kind, tokens, tokens // ratio * unit * heads, () if opaque else (part,), ratio, window)


def draw_state(source: Source, room: int) -> Cache:
    """A recurrent state that fits: opaque, or a convolution's inputs and the state proper."""
    unit = max(1, room // 16)
    if room < 16 or source.chance(35):
        return Cache("ssm", 1, max(1, room - source.choice([0, 0, unit])))
    conv = source.integer(1, max(1, unit // 2))
    parts = (
        Part("x", 2 * conv, 4, 0, 4), Part("B", conv), Part("C", conv), Part("state", max(1, unit // 2), 4, 0, 4),
    )  # fmt: skip
    return Cache("ssm", 1, sum(part.unit_bytes * part.count for part in parts), parts)


def aligned(cache: Cache, alignment: int) -> Cache:
    """The cache with its page padded."""
    return replace(cache, page_bytes=-(-cache.page_bytes // alignment) * alignment)


def settle(source: Source, producer: Engine, consumer: Engine) -> Pair:
    """Rows know no split blocks. A few pairs pad their blocks, and a few storages have a tail."""
    alignment = 48 if source.chance(3) else 1
    return _settled(source, producer, alignment), _settled(source, consumer, alignment)


def _settled(source: Source, engine: Engine, alignment: int) -> Engine:
    if engine.layout == "rows":
        return replace(engine, teams=tuple(replace(team, per_block=1) for team in engine.teams))
    return replace(engine, alignment=alignment, tail=source.integer(1, 7) if source.chance(4) else 0)


def uniform(buckets: Sequence[list[Member]]) -> list[tuple[Member, ...]]:
    """Groups of about equal size, each of one kind of layer: every bucket is dealt out in turns."""
    sizes = [len(bucket) for bucket in buckets if bucket]
    size = max(sizes) if max(sizes) < 1.5 * min(sizes) else min(sizes)
    return [group for bucket in buckets if bucket for group in dealt(bucket, -(-len(bucket) // size))]


def pack(mains: list[Member], others: list[list[Member]]) -> list[tuple[Member, ...]]:
    """Groups for rows: attention stays whole, all else is dealt out so that it does not widen the row."""
    width = max(sum(m.cache.page_bytes for m in mains), *(b[0].cache.page_bytes for b in others if b))
    groups = [tuple(mains)] if mains else []
    for bucket in others:
        if bucket:
            fitting = max(1, width // bucket[0].cache.page_bytes)
            groups += dealt(bucket, -(-len(bucket) // fitting))
    return groups


def dealt(bucket: list[Member], count: int) -> list[tuple[Member, ...]]:
    """The bucket in so many groups, in turns."""
    return [tuple(bucket[number::count]) for number in range(count)]
