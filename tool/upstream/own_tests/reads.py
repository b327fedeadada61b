# SPDX-License-Identifier: Apache-2.0
"""A request that a worker of a test moved: the blocks of both sides, and the transfers that it posted.

Where the peer is made up by the test, its memory is what it said of itself when they shook hands. A peer of several
ranks is judged rank by rank: what each rank holds is a pair of its own, a slice of a state is a layer of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd, prod
from typing import TypeVar

import msgspec

from kvproof.spec.plan import ZeroRun
from kvproof.spec.vocabulary import TOKEN_KINDS, Group, Layer, Pool, Storage, Table
from kvproof.upstream.own_tests.numbers import PAGE_TOKENS, SHARED, Listed, Plot, numbered
from kvproof.upstream.own_tests.pin import (
    TARGET,
    Declined,
    Misfit,
    NoWords,
    Pin,
    Pinned,
    Reading,
    Side,
    Uncovered,
    case_of,
    lists_of,
    prepared,
    transfer_of,
)
from kvproof.upstream.own_tests.records import Peer, Posted, Record, Spec
from kvproof.upstream.own_tests.twins import Home, kind_of, page_tokens, section_rows

T = TypeVar("T")

ABOUT = "a request that is read"


class Known(msgspec.Struct, frozen=True):
    """What came before a request in its test: workers, their peers, and the zeroes that came after it."""

    registered: Record | None
    peer: Peer | None
    zeroes: tuple[tuple[int, int], ...] = ()


def reads(record: Record, known: Known, reading: Reading) -> Iterator[Pinned]:
    """A pin for each rank of the peer, or one for all where the test has no memory."""
    if record.error is not None:
        yield Declined(ABOUT, record.error)
        return
    try:
        _in_scope(record)
        if any(posted.local_rows is None or posted.remote_rows is None for posted in record.transfers):
            yield _by_numbers(record)
            return
        # What the worker is not told it cannot heed: its plan is judged for the longest prompt that the blocks have
        # room for, and for the one that the test has in mind.
        yield from _by_rank(ABOUT, record, known, None)
        if reading.tokens is not None:
            yield from _by_rank(f"{ABOUT}, of {reading.tokens} tokens", record, known, reading.tokens)
    except NoWords as reason:
        yield Uncovered(ABOUT, str(reason))


def _in_scope(record: Record) -> None:
    engine, remote = record.engine, record.remote
    if engine is None or remote is None or record.request is None:
        raise NoWords("the test's worker is mocked")
    if record.event == "write":
        raise NoWords("a transfer that the producer posts")
    if (engine.dcp_size or 1) > 1 or (remote.dcp_size or 1) > 1:
        raise NoWords("context parallelism")
    if (engine.tp_size or 1) > 1 or ((remote.tp_size or 1) > 1 and not engine.use_mla):
        raise NoWords("tensor parallelism of heads")


def _by_numbers(record: Record) -> Pin:
    """Regions of a peer and of the worker as plots; the peer's groups by its own regions."""
    engine, remote, request = record.engine, record.remote, record.request
    assert engine is not None and remote is not None and request is not None
    if engine.has_mamba or len(record.transfers) != 1:
        raise NoWords("a request of several transfers without memory")
    ours, theirs = request.local_blocks, request.remote_blocks
    lengths, counts = engine.region_bytes, engine.region_pages
    local_groups = engine.region_groups
    if ours is None or theirs is None or lengths is None or not local_groups:
        raise NoWords("the test mocks the blocks or regions of its request")
    remote_groups = remote.region_groups or local_groups
    remote_counts = remote.region_pages or [remote.pages or 0] * len(lengths)
    counts = remote.own_region_pages or counts
    if not counts:
        raise NoWords("the test mocks the blocks or regions of its request")
    ratios = engine.pages_per_block or 1, remote.pages_per_block or 1
    kernel = engine.kernel_tokens or PAGE_TOKENS
    if (remote.kernel_tokens or kernel) != kernel:
        raise NoWords("pages of unequal length without memory")
    firsts = _cached(record, len(ours))
    target = [
        Listed(
            "attention",
            Table(own, first=first, cached_tokens=first * ratios[0] * kernel),
            _regions_of(local_groups, number),
            kernel * ratios[0],
            ratios[0],
        )
        for number, (own, first) in enumerate(zip(ours, firsts, strict=True))
    ]
    source = [
        Listed("attention", Table(own), _regions_of(remote_groups, number), kernel * ratios[1], ratios[1])
        for number, own in enumerate(theirs)
    ]
    plots = [[Plot(count, "attention", bytes_, bytes_) for count, bytes_ in zip(each, lengths, strict=True)]
             for each in (remote_counts, counts)]  # fmt: skip
    ends = [
        (first + len(own)) * ratios[0] * kernel for own, first in zip(ours, firsts, strict=True) if own
    ]  # fmt: skip
    room = min([*ends, *(len(own) * ratios[1] * kernel for own in theirs)], default=0)
    tokens = request.tokens or room
    if not tokens:
        raise NoWords("nothing is to be moved")
    (posted,) = record.transfers
    notes = (f"the producer is one of {remote.tp_size} ranks that all hold the whole pages",)
    return numbered(
        ABOUT,
        (plots[0], source),
        (plots[1], target),
        tokens,
        (_ids(posted.remote_ids), _ids(posted.local_ids)),
        request.zeroed_pages or (),
        notes if (remote.tp_size or 1) > 1 else (),
    )


def _regions_of(groups: Sequence[int], number: int) -> tuple[int, ...]:
    return tuple(index for index, group in enumerate(groups) if group in (number, SHARED))


def _cached(record: Record, groups: int) -> list[int]:
    """Blocks of each group that the consumer has already: they stand in front of those it lists."""
    request, engine = record.request, record.engine
    assert request is not None and engine is not None
    if not request.cached_blocks:
        return [0] * groups
    ids = engine.group_ids or tuple(range(groups))
    return [request.cached_blocks[ids[number]] for number in range(groups)]


def _by_rank(about: str, record: Record, known: Known, tokens: int | None) -> Iterator[Pinned]:
    if known.registered is None or known.peer is None:
        raise NoWords("a peer that the test makes up without a handshake")
    ranks = (record.remote.ranks if record.remote is not None else None) or (0,)
    if len(ranks) != len(record.transfers):
        raise NoWords("ranks of the peer that nothing is read from")
    pair = _Pair(about, record, known, known.registered, known.peer, tokens)
    for number, posted in enumerate(record.transfers):
        yield from pair.pins(number, len(ranks), posted)


class _Overlong(Exception):
    """States of a peer that run into those of the next block: the layer, and the numbers."""


class _Pair:
    """A registered worker as the consumer, and what a peer said of itself as the producer."""

    def __init__(
        self, about: str, record: Record, known: Known, registered: Record, peer: Peer, tokens: int | None
    ) -> None:
        assert record.request is not None and registered.engine is not None
        self.request, self.engine = record.request, registered.engine
        self.about = about
        self.zeroes = known.zeroes
        self.home = Home(registered)
        assert registered.rows is not None
        self.region_at = {row[0]: n for n, row in enumerate(registered.rows[: len(self.engine.region_bytes or ())])}
        self.bases = _given(peer.kv_caches_base_addr)
        self.lengths = _given(peer.block_lens)
        self.strides = peer.block_strides or self.lengths  # older releases say no strides: pages touch
        self.pages = peer.num_blocks or 0
        self.ratio = peer.physical_blocks_per_logical_kv_block or 1
        self.kernels = self.engine.kernel_tokens or 0, peer.block_size or 0
        self.ssm_sizes = peer.ssm_sizes or ()
        # Pages of unequal length are dense, so that pages as long as both divide into say the same of the bytes.
        self.unit = gcd(*self.kernels)
        self.ours, self.theirs = _given(self.request.local_blocks), _given(self.request.remote_blocks)
        if self.request.cached_blocks and any(self.request.cached_blocks):
            raise NoWords("a cached prefix of a model with states")
        self.tokens = tokens or self.request.tokens or self._room()

    def _room(self) -> int:
        """As many tokens as both sides have blocks for."""
        token_groups = [n for n, group in enumerate(self.home.groups) if group.kind in TOKEN_KINDS]
        ours = [len(self.ours[n]) * (self.home.groups[n].block_tokens or 0) for n in token_groups]
        theirs = [len(self.theirs[n]) * self.ratio * self.kernels[1] for n in token_groups]
        return min(ours + theirs)

    def pins(self, number: int, ranks: int, posted: Posted) -> Iterator[Pinned]:
        """What the consumer is to have of one rank."""
        about = self.about if ranks == 1 else f"{self.about}, rank {number} of {ranks}"
        layers: list[tuple[Layer, Layer]] = []
        notes: list[str] = []
        kept: set[int] = set()
        misfits: list[str] = []
        for index, group in enumerate(self.home.groups):
            try:
                found = list(self._layers(index, group, number, ranks))
            except NoWords as reason:
                notes.append(f"{group.name}: {reason}")
                continue
            except _Overlong as overlong:
                misfits.append(str(overlong))
                continue
            if found:
                kept.add(index)
                layers += found
        yield from (Misfit(about, words) for words in misfits[:1])
        if not kept:
            if notes:
                yield Uncovered(about, "; ".join(dict.fromkeys(note.split(": ", 1)[1] for note in notes)))
            return
        groups = [self.home.groups[index] for index in sorted(kept)]
        source = self._source(groups, [pair[0] for pair in layers])
        target = self._target(groups, [pair[1] for pair in layers])
        assert posted.local_rows is not None and posted.remote_rows is not None
        sections = section_rows(self.engine)
        remote, local = (prepared(rows, sections) for rows in (posted.remote_rows, posted.local_rows))
        pairs = list(zip(_ids(posted.remote_ids), _ids(posted.local_ids), strict=False))
        if notes or misfits:
            # What the left-out groups move is not judged; their ids are those of the ssm sections.
            ends = [(one.sections or {}).get("attention", (0, 0))[1] for one in (remote, local)]
            pairs = [(one, two) for one, two in pairs if one < ends[0] and two < ends[1]]
        elif len(_ids(posted.remote_ids)) != len(_ids(posted.local_ids)):
            raise NoWords("ids that do not pair")
        transfer = transfer_of(remote, local, [one for one, _ in pairs], [two for _, two in pairs])
        zeroes = self._zeroes() if number == 0 else []
        yield Pin(
            about=about,
            case=case_of(about, source, target, self.tokens),
            lists=lists_of(about, source, target, [transfer], zeroes),
            notes=tuple(notes),
        )

    def _layers(self, index: int, group: Group, rank: int, ranks: int) -> Iterator[tuple[Layer, Layer]]:
        """Layers of one group on the producer's rank and on the consumer."""
        seen = self.engine.groups
        assert seen is not None
        for layer in self.home.layers:
            if layer.group != group.name:
                continue
            region = self._region(layer)
            if group.kind in TOKEN_KINDS:
                if rank == 0:  # pages of MLA are whole on every rank: the first is read
                    yield self._paged(layer, region, page_tokens(group))
                continue
            if kind_of(seen[index].spec) != "ssm":
                raise NoWords("rings and replicated states of a peer")
            yield from self._slices(layer, region, seen[index].spec, rank, ranks)

    def _region(self, layer: Layer) -> int:
        address = self.home.bases[layer.storage] + layer.offset
        if address not in self.region_at:
            raise NoWords("a layer that begins within a region")
        return self.region_at[address]

    def _paged(self, layer: Layer, region: int, kernel: int) -> tuple[Layer, Layer]:
        ours = _cut(layer, kernel // self.unit)
        theirs = msgspec.structs.replace(
            layer,
            storage=f"region {region}",
            offset=0,
            page_bytes=self.lengths[region],
            page_stride=self.strides[region],
        )
        return _cut(theirs, self.kernels[1] // self.unit), ours

    def _slices(self, layer: Layer, region: int, spec: Spec, rank: int, ranks: int) -> Iterator[tuple[Layer, Layer]]:
        """Each state's share of one rank, as a layer: a run of its rows on the consumer, all of it on the producer."""
        sizes = state_bytes(spec)
        if any(size % ranks for size in sizes):
            raise NoWords("states that do not divide by the ranks")
        conv, rest = sum(sizes[:-1]) // ranks, sizes[-1] // ranks
        if self.ssm_sizes and self.ssm_sizes != (conv, rest):
            raise NoWords("states of other sizes on the peer")
        pitch = self.strides[region] * self.ratio
        if conv + rest > pitch:
            raise _Overlong(f"{layer.name}: states of {conv + rest} bytes stand {pitch} apart on the peer")
        start = 0
        for number, size in enumerate(sizes):
            share = size // ranks
            name = f"{layer.name}, state {number}"
            yield (
                Layer(
                    name=name, group=layer.group, storage=f"region {region}", offset=start // ranks,
                    page_bytes=share, page_stride=pitch,
                ),
                Layer(
                    name=name, group=layer.group, storage=layer.storage, offset=layer.offset + start + rank * share,
                    page_bytes=share, page_stride=layer.page_stride,
                ),
            )  # fmt: skip
            start += size

    def _source(self, groups: Sequence[Group], layers: Sequence[Layer]) -> Side:
        tables = {group.name: Table(self.theirs[_number(group)]) for group in groups}
        storages = tuple(Storage(f"region {n}", self.pages * stride, "VRAM") for n, stride in enumerate(self.strides))
        return Side(
            storages=storages,
            pools=(Pool("device", self.pages // self.ratio),),
            groups=tuple(_regrouped(group, self.unit, self.kernels[1], self.ratio) for group in groups),
            layers=tuple(layers),
            tables=tables,
            bases={f"region {n}": base for n, base in enumerate(self.bases)},
        )

    def _target(self, groups: Sequence[Group], layers: Sequence[Layer]) -> Side:
        tables = {group.name: Table(self.ours[_number(group)], cached_tokens=0) for group in groups}
        return Side(
            storages=self.home.storages,
            pools=self.home.pools,
            groups=tuple(
                _regrouped(group, self.unit, page_tokens(group), group.pages_per_block)
                if group.kind in TOKEN_KINDS
                else group
                for group in groups
            ),
            layers=tuple(layers),
            tables=tables,
            bases=self.home.bases,
        )

    def _zeroes(self) -> list[ZeroRun]:
        found = []
        for address, length in self.zeroes:
            place = self.home.find(address)
            if place is None:
                raise NoWords("zeroes outside the worker's memory")
            found.append(ZeroRun((TARGET, *place), length))
        return found


def state_bytes(spec: Spec) -> list[int]:
    """Bytes of the runs that tensor parallelism shards a state by: the projections of its convolution, then the rest.

    From the shapes, as the models define them: the convolution's channels are one run (Mamba 1), x, B and C (Mamba 2),
    or queries, keys and values (gated delta net), with as many keys as queries.
    """
    shapes, items = spec.shapes or (), spec.item_bytes
    if len(shapes) != 2 or len(items) != 2 or len(shapes[0]) != 2:
        raise NoWords("states of unusual shapes")
    (channels, rows), rest = shapes[0], shapes[1]
    row_bytes = rows * items[0]
    values = rest[0] * rest[1]
    if spec.mamba_type == "GDN_ATTN":
        keys = (channels - values) // 2
        runs = [keys, keys, values]
    elif spec.mamba_type == "MAMBA2":
        shared = (channels - values) // 2
        runs = [values, shared, shared]
    elif spec.mamba_type == "MAMBA1":
        runs = [channels]
    else:
        raise NoWords(f"states of kind {spec.mamba_type}")
    return [*(run * row_bytes for run in runs), prod(rest) * items[1]]


def _regrouped(group: Group, unit: int, kernel: int, ratio: int) -> Group:
    """A group whose blocks are ``ratio`` kernel pages long, cut into pages of ``unit`` tokens."""
    if group.kind not in TOKEN_KINDS:
        return group
    return msgspec.structs.replace(group, block_tokens=kernel * ratio, pages_per_block=ratio * (kernel // unit))


def _cut(layer: Layer, times: int) -> Layer:
    """The layer with each page cut in so many."""
    if times == 1:
        return layer
    if layer.page_bytes != layer.page_stride or layer.page_bytes % times:
        raise NoWords("pages of unequal length that are padded")
    return msgspec.structs.replace(
        layer, page_bytes=layer.page_bytes // times, page_stride=layer.page_stride // times
    )  # fmt: skip


def _number(group: Group) -> int:
    return int(group.name.split()[-1])


def _ids(ids: Sequence[int] | None) -> Sequence[int]:
    if ids is None:
        raise NoWords("the test mocks the ids of its transfer")
    return ids


def _given(value: T | None) -> T:
    if value is None:
        raise NoWords("the test mocks what is needed of its request")
    return value
