# SPDX-License-Identifier: Apache-2.0
"""A worker that a test registered, paired with a twin of itself: each of its groups moves alone, by the target's ids.

What is judged is how the worker laid out its memory and what its ids address: truncated or displaced pages, ids that
reach into foreign ones, descriptors that other descriptors contain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import lcm, prod

from kvproof.spec.descriptors import Row
from kvproof.spec.judge.captured import CapturedRegion
from kvproof.spec.tables import Region, Section
from kvproof.spec.vocabulary import TOKEN_KINDS, Group, Kind, Layer, Part, Pool, Storage, Table
from kvproof.upstream.judging.translate import NOWHERE
from kvproof.upstream.own_tests.pin import (
    ATTENTION_ROOT,
    RING_ROOT,
    SOURCE,
    SSM_ROOT,
    TARGET,
    Declined,
    NoWords,
    Pin,
    Pinned,
    Side,
    Uncovered,
    case_of,
    lists_of,
    prepared,
    transfer_of,
)
from kvproof.upstream.own_tests.records import Engine, LayerView, OwnPlan, Record, Spec
from kvproof.upstream.own_tests.records import Group as SeenGroup


def twins(record: Record) -> Iterator[Pinned]:
    """A pin for each group of a registered worker."""
    if record.error is not None:
        yield Declined("a worker registers its caches", record.error)
        return
    if record.engine is None or record.rows is None or not record.layers:
        yield Uncovered("a worker registers its caches", "the test has no descriptor list of its own for them")
        return
    for plan in record.own:
        about = f"group {plan.group} of a worker and its twin"
        if plan.error is not None:
            yield Uncovered(about, f"the worker of the test cannot compute ids: {plan.error}")
            continue
        try:
            yield _twin(about, record, record.engine, plan)
        except NoWords as reason:
            yield Uncovered(about, str(reason))


def _twin(about: str, record: Record, engine: Engine, plan: OwnPlan) -> Pin:
    home = Home(record)
    moved = home.groups[plan.group]
    tokens = _tokens(home, moved, len(plan.target_blocks))
    source = home.side({group.name: Table(plan.source_blocks if group is moved else ()) for group in home.groups})
    # Of the other groups nothing is asked for: the consumer has it all.
    target = home.side(
        {
            group.name: Table(*((plan.target_blocks, 0, 0) if group is moved else ((), 0, tokens)))
            for group in home.groups
        }
    )
    assert record.rows is not None
    rows = prepared(record.rows, section_rows(engine))
    return Pin(
        about=about,
        case=case_of(about, source, target, tokens),
        lists=lists_of(about, source, target, [transfer_of(rows, rows, plan.source_ids, plan.target_ids)]),
        regions=home.regions(record.rows),
    )


def _tokens(home: Home, moved: Group, blocks: int) -> int:
    """A prompt that fills the blocks, and ends on a page in every group."""
    step = lcm(*(page_tokens(group) for group in home.groups if group.kind in TOKEN_KINDS), 1)
    if moved.kind not in TOKEN_KINDS:
        return step
    assert moved.block_tokens is not None
    if blocks * moved.block_tokens % step:
        raise NoWords("page lengths of the groups have no common number of tokens")
    return blocks * moved.block_tokens


class Home:
    """The memory of a registered worker as a case has it. Raises NoWords for what a case cannot say."""

    def __init__(self, record: Record) -> None:
        assert record.engine is not None
        self.engine = record.engine
        self.views = {view.name: view for view in record.layers}
        if not record.engine.groups:
            raise NoWords("the test's worker has no cache groups")
        self.seen = record.engine.groups
        starts = sorted({(view.storage, view.storage_bytes) for view in record.layers})
        self.names = {start: f"storage {number}" for number, (start, _) in enumerate(starts)}
        self.storages = tuple(Storage(self.names[start], length, "VRAM") for start, length in starts)
        self.bases = {self.names[start]: start for start, _ in starts}
        self.pools = self._pools()
        self.groups = [self._group(number, group) for number, group in enumerate(self.seen)]
        self.layers = tuple(layer for number in range(len(self.seen)) for layer in self._layers(number))
        present = {layer.group for layer in self.layers}
        if any(group.name not in present for group in self.groups):
            raise NoWords("a cache group of the test's worker has no memory")

    def side(self, tables: dict[str, Table]) -> Side:
        """The worker with these tables."""
        return Side(self.storages, self.pools, tuple(self.groups), self.layers, tables, self.bases)

    def regions(self, rows: Sequence[Row]) -> dict[str, list[CapturedRegion]]:
        """The regions that the worker registered, with the groups whose ids address them, as both workers have them.

        Rows of attention stand first, one for each region, unless the worker lists layers and not regions.
        """
        count = len(self.engine.region_bytes or ())
        if self.engine.layer_groups or len(rows) < count:
            return {}
        found = [(row, self._addressing(number)) for number, row in enumerate(rows[:count])]
        return {name: [self._region(name, row, groups) for row, groups in found] for name in (SOURCE, TARGET)}

    def _region(self, worker: str, row: Row, groups: tuple[str, ...] | None) -> CapturedRegion:
        address, length, _, stride, pages = row
        place = self.find(address)
        storage, offset = place or (NOWHERE, 0)
        region = Region(f"{worker}/{storage}", offset, length, stride, pages, "VRAM", "attention")
        return CapturedRegion(region, groups, None if place else address)

    def _addressing(self, number: int) -> tuple[str, ...] | None:
        groups = self.engine.region_groups
        if self.engine.has_mamba or not groups or number >= len(groups) or len(set(groups)) < 2:
            return None
        own = groups[number]
        return tuple(group.name for index, group in enumerate(self.groups) if own in (index, -1))

    def find(self, address: int) -> tuple[str, int] | None:
        """Storage and offset of an address."""
        for storage in self.storages:
            base = self.bases[storage.name]
            if base <= address < base + storage.bytes:
                return storage.name, address - base
        return None

    def _pools(self) -> tuple[Pool, ...]:
        pools: dict[str, int] = {}
        for group in self.seen:
            if not group.blocks:
                raise NoWords("the test's worker does not say how many blocks it has")
            pools["host" if group.host else "device"] = group.blocks
        return tuple(Pool(name, blocks) for name, blocks in pools.items())

    def _group(self, number: int, group: SeenGroup) -> Group:
        kinds = {kind_of(self._spec(group, name)) for name in group.layers}
        lengths = {self._spec(group, name).block_size for name in group.layers}
        if len(kinds) != 1 or len(lengths) != 1:
            raise NoWords("layers of one cache group have blocks of different kinds or lengths")
        kind, (length,) = kinds.pop(), lengths
        ppl = self.engine.pages_per_block or 1
        if kind in TOKEN_KINDS and (length is None or length % ppl):
            raise NoWords("a cache group whose blocks are no whole number of pages")
        return Group(
            name=f"group {number}",
            kind=kind,
            pool="host" if group.host else "device",
            block_tokens=length if kind in (*TOKEN_KINDS, "ring") else None,
            pages_per_block=ppl if kind in TOKEN_KINDS else 1,
        )

    def _spec(self, group: SeenGroup, name: str) -> Spec:
        return group.spec.layers.get(name, group.spec)

    def _layers(self, number: int) -> Iterator[Layer]:
        seen, group = self.seen[number], self.groups[number]
        assert seen.blocks is not None
        known: set[tuple[int, ...]] = set()
        for name in seen.layers:
            if name not in self.views:
                continue
            view, spec = self.views[name], self._spec(seen, name)
            if not view.dense:
                raise NoWords("pages that are no one run of bytes")
            # Layers of one group that share their whole cache have the same bytes: they are judged once.
            same = (view.address, view.stride, view.pages, spec.page_size_bytes or 0)
            if same in known:
                continue
            known.add(same)
            pages = seen.blocks * group.pages_per_block
            yield Layer(
                name=name,
                group=group.name,
                storage=self.names[view.storage],
                offset=view.address - view.storage,
                page_bytes=page_bytes(spec, group.pages_per_block),
                page_stride=_page_stride(view, pages),
                tokens_per_state=(spec.tokens_per_state or 1) if group.kind in TOKEN_KINDS else 1,
                parts=state_parts(spec) if kind_of(spec) in ("ssm", "replicated-ssm") else (),
            )


def page_tokens(group: Group) -> int:
    """Tokens of a page of an attention group."""
    assert group.block_tokens is not None
    return group.block_tokens // group.pages_per_block


def kind_of(spec: Spec) -> Kind:
    """The kind of group. Windows decide which blocks are asked for, not where they lie: they count as attention."""
    if SSM_ROOT in spec.types:
        return "replicated-ssm" if spec.tp_replicated else "ssm"
    if RING_ROOT in spec.types:
        return "ring"
    if ATTENTION_ROOT in spec.types:
        return "attention"
    raise NoWords(f"a cache of kind {spec.types[0] if spec.types else 'unknown'}")


def page_bytes(spec: Spec, pages_per_block: int) -> int:
    """Bytes of a page."""
    if not spec.page_size_bytes or spec.page_size_bytes % pages_per_block:
        raise NoWords("the page of a layer cannot be told")
    return spec.page_size_bytes // pages_per_block


def state_parts(spec: Spec) -> tuple[Part, ...]:
    """The states that make up a page of an ssm layer; what follows them is padding."""
    if not spec.shapes or len(spec.shapes) != len(spec.item_bytes):
        raise NoWords("the states of an ssm layer cannot be told")
    sizes = [prod(shape) * item for shape, item in zip(spec.shapes, spec.item_bytes, strict=True)]
    return tuple(Part(name=f"state {number}", unit_bytes=size) for number, size in enumerate(sizes))


def section_rows(engine: Engine) -> dict[Section, int]:
    """How many of a list's last rows belong to ssm layers."""
    if not engine.has_mamba:
        return {}
    layers = len(engine.ssm_regions or engine.region_bytes or ())
    replicated = 0 if engine.ple_region is None else 1
    return {"ssm": layers * ((engine.conv_parts or 0) + 1), "replicated-ssm": replicated}


def _page_stride(view: LayerView, pages: int) -> int:
    """From page to page. A view may be cut finer than the pages of a layer, or coarser where its pages touch."""
    if view.pages % pages == 0:
        return view.stride * (view.pages // pages)
    if pages % view.pages == 0 and view.stride % (pages // view.pages) == 0:
        return view.stride // (pages // view.pages)
    raise NoWords("a layer has another number of pages than its pool")
