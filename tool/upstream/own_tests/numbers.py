# SPDX-License-Identifier: Apache-2.0
"""Plans that a test pins as numbers alone, without any memory: each region is given a storage of its own here.

Many tests call one planning function of a worker that was never registered. Its ids, or its pairs of pages, are a plan
all the same once every page has bytes: a wrong id then moves wrong bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from kvproof.spec.descriptors import DescriptorList, Row
from kvproof.spec.plan import ZeroRun
from kvproof.spec.tables import Section
from kvproof.spec.vocabulary import TOKEN_KINDS, Group, Kind, Layer, Pool, Storage, Table
from kvproof.upstream.own_tests.pin import (
    RING_ROOT,
    SSM_ROOT,
    TARGET,
    Declined,
    NoWords,
    Pin,
    Pinned,
    Reading,
    Side,
    Uncovered,
    case_of,
    lists_of,
    transfer_of,
)
from kvproof.upstream.own_tests.records import Engine, Record

PAGE_TOKENS = 16
"""Tokens of a page where the test does not say; no law depends on it."""

PAGE_BYTES = 64
FIRST_ADDRESS = 2**20

PAGES_LIMIT = 2**20
"""More pages than this are not written out one by one: no test has so many, but a number may say so."""

SHARED = -1
"""The group of a region that the ids of all groups address."""


class Plot(msgspec.Struct, frozen=True):
    """A region: its pages, each ``bytes`` long and ``stride`` apart, in a storage that is its own."""

    pages: int
    section: Section = "attention"
    bytes: int = PAGE_BYTES
    stride: int = PAGE_BYTES


class Listed(msgspec.Struct, frozen=True):
    """A group: its kind, its table, and the plots that its layers stand on."""

    kind: Kind
    table: Table
    plots: tuple[int, ...]
    block_tokens: int = PAGE_TOKENS
    pages_per_block: int = 1


def side_of(plots: Sequence[Plot], groups: Sequence[Listed]) -> Side:
    """A worker whose regions lie far apart. Groups that meet on a plot share a pool."""
    storages = tuple(Storage(f"region {n}", plot.pages * plot.stride, "VRAM") for n, plot in enumerate(plots))
    bases: dict[str, int] = {}
    address = FIRST_ADDRESS
    for storage in storages:
        bases[storage.name] = address
        address += 2 * storage.bytes + FIRST_ADDRESS
    pools = _pools(groups)
    if not all(group.plots for group in groups):
        raise NoWords("a group has no region of its own")
    layers: list[Layer] = []
    met: dict[int, int] = {}
    for number, group in enumerate(groups):
        for plot in group.plots:
            times = met[plot] = met.get(plot, -1) + 1
            layers.append(
                Layer(
                    name=f"group {number}, region {plot}",
                    key=f"region {plot}" + (f", again {times}" if times else ""),
                    group=f"group {number}",
                    storage=f"region {plot}",
                    offset=0,
                    page_bytes=plots[plot].bytes,
                    page_stride=plots[plot].stride,
                )
            )
    blocks = {
        pool: min(plots[plot].pages // group.pages_per_block for group, mine in zip(groups, pools, strict=True)
                  if mine == pool for plot in group.plots)
        for pool in pools
    }  # fmt: skip
    return Side(
        storages=storages,
        pools=tuple(Pool(pool, count) for pool, count in blocks.items()),
        groups=tuple(
            Group(
                name=f"group {number}",
                kind=group.kind,
                pool=pool,
                block_tokens=group.block_tokens if group.kind in (*TOKEN_KINDS, "ring") else None,
                pages_per_block=group.pages_per_block,
            )
            for number, (group, pool) in enumerate(zip(groups, pools, strict=True))
        ),
        layers=tuple(layers),
        tables={f"group {number}": group.table for number, group in enumerate(groups)},
        bases=bases,
    )


def _pools(groups: Sequence[Listed]) -> list[str]:
    """A pool for each set of groups that meet on a plot."""
    names = [f"pool {number}" for number in range(len(groups))]
    for first, group in enumerate(groups):
        for second in range(first):
            if set(group.plots) & set(groups[second].plots):
                old, new = names[first], names[second]
                names = [new if name == old else name for name in names]
    return names


def list_of(side: Side, plots: Sequence[Plot]) -> DescriptorList:
    """A prepared list with one row for each plot."""
    rows: list[Row] = []
    sections: dict[Section, tuple[int, int]] = {}
    end = 0
    for number, plot in enumerate(plots):
        rows.append((side.bases[f"region {number}"], plot.bytes, 0, plot.stride, plot.pages))
        start = sections.get(plot.section, (end, end))[0]
        end += plot.pages
        sections[plot.section] = (start, end)
    return DescriptorList("VRAM", tuple(rows), sections)


def numbered(
    about: str,
    source: tuple[Sequence[Plot], Sequence[Listed]],
    target: tuple[Sequence[Plot], Sequence[Listed]],
    tokens: int,
    ids: tuple[Sequence[int], Sequence[int]],
    zeroed: Sequence[Sequence[int]] = (),
    notes: tuple[str, ...] = (),
) -> Pin:
    """A pin of two workers and one transfer. ``ids``: of the source and of the target; ``zeroed``: pages by plot."""
    first, second = side_of(*source), side_of(*target)
    transfer = transfer_of(list_of(first, source[0]), list_of(second, target[0]), *ids)
    zeroes = [
        ZeroRun((TARGET, f"region {number}", page * target[0][number].stride), target[0][number].bytes)
        for number, pages in enumerate(zeroed)
        for page in pages
    ]
    return Pin(
        about=about,
        case=case_of(about, first, second, tokens),
        lists=lists_of(about, first, second, [transfer], zeroes),
        real=False,
        notes=notes,
    )


def numbers(record: Record, reading: Reading) -> Iterator[Pinned]:
    """What a call of one planning function pins."""
    about, plan = _CALLS[record.event]
    if record.error is not None:
        yield Declined(about, record.error)
        return
    try:
        yield plan(about, record, record.engine or Engine(), reading)
    except NoWords as reason:
        yield Uncovered(about, str(reason))
    except KeyError as missing:
        yield Uncovered(about, f"a function of other arguments: there is no {missing}")


def _ids(about: str, record: Record, engine: Engine, _: Reading) -> Pin:
    """Descriptor ids of blocks: the same on both sides, so that each id must name its own block's descriptor."""
    given = record.given
    blocks: list[list[int]] = given["block_ids"]
    ids: list[int] = _known(record.answer, "its answer")
    kinds = [_kind(engine, number) for number in range(len(blocks))]
    counts = _region_pages(given, engine)
    ssm = _ssm_plots(engine, kinds, given["dst_num_blocks"] // given["physical_blocks_per_logical"])
    plots = [*(Plot(count) for count in counts), *ssm]
    groups = []
    longest = max((len(own) for own, kind in zip(blocks, kinds, strict=True) if kind in TOKEN_KINDS), default=0)
    tokens = max(longest, 1) * PAGE_TOKENS
    for number, own in enumerate(blocks):
        plots_of = _plots_of(number, kinds[number], given, engine, len(counts), plots)
        groups.append(Listed(kinds[number], _table(own, kinds[number], longest, tokens), plots_of))
    source = [msgspec.structs.replace(group, table=_of_producer(group.table)) for group in groups]
    return numbered(about, (plots, source), (plots, groups), tokens, (ids, ids))


def _table(blocks: Sequence[int], kind: Kind, longest: int, tokens: int, states: int | None = None) -> Table:
    """A consumer's table of ``blocks`` one page long: they end where the prompt ends, what precedes them is cached.

    Of blocks that hold states, the last counts, or the last of the first ``states``.
    """
    if kind in TOKEN_KINDS:
        first = longest - len(blocks)
        return Table(tuple(blocks), first=first, cached_tokens=first * PAGE_TOKENS if longest else tokens)
    last = len(blocks) if states is None else min(len(blocks), states)
    live = max(last - 1, 0) if len(blocks) > 1 else None
    return Table(tuple(blocks), cached_tokens=0 if blocks else tokens, live=live)


def _of_producer(table: Table) -> Table:
    return msgspec.structs.replace(table, cached_tokens=None)


def _kind(engine: Engine, group: int) -> Kind:
    name = engine.group_types[group] if engine.group_types and group < len(engine.group_types) else ""
    if name == SSM_ROOT:
        return "replicated-ssm" if group == engine.ple_group else "ssm"
    return "ring" if name == RING_ROOT else "attention"


def _region_pages(given: dict[str, Any], engine: Engine) -> list[int]:
    ratio = int(given.get("block_size_ratio") or 1)
    if given.get("region_num_blocks"):
        return [count * ratio for count in given["region_num_blocks"]]
    regions = len(engine.layer_groups or ()) or engine.regions or len(engine.region_bytes or ())
    return [given["dst_num_blocks"] * ratio] * regions


def _ssm_plots(engine: Engine, kinds: Sequence[Kind], blocks: int) -> list[Plot]:
    """Rows behind those of attention: some for each ssm layer, and one for the state that all ranks hold."""
    plots: list[Plot] = []
    if engine.has_mamba:
        layers = len(engine.ssm_regions or engine.region_bytes or ())
        plots += [Plot(blocks, "ssm")] * (layers * ((engine.conv_parts or 0) + 1))
    if "replicated-ssm" in kinds:
        plots.append(Plot(blocks, "replicated-ssm"))
    return plots


def _plots_of(
    number: int, kind: Kind, given: dict[str, Any], engine: Engine, regions: int, plots: Sequence[Plot]
) -> tuple[int, ...]:
    """The regions that a group's ids are to address."""
    if kind in ("ssm", "replicated-ssm"):
        return tuple(index for index, plot in enumerate(plots) if plot.section == kind)
    if engine.has_mamba:
        return tuple(engine.scratch_regions or ()) if kind == "ring" else tuple(range(regions))
    groups = given.get("region_group_ids") or engine.layer_groups or engine.region_groups
    if not groups or len(set(groups)) < 2:
        return tuple(range(regions))
    return tuple(index for index, group in enumerate(groups) if group in (number, SHARED))


def _trimmed(about: str, record: Record, engine: Engine, reading: Reading) -> Pin:
    """Pages of both sides, less those that the consumer has: what is left is paired by position."""
    given = record.given
    decode: list[list[int]] = given["decode_block_ids"]
    prefill: list[list[int]] = given["prefill_block_ids"]
    alike = given["decode_physical_per_logical"] == given["prefill_physical_per_logical"]
    taken, given_up = _known(record.answer, "its answer")
    kinds = [_kind(engine, number) for number in range(len(decode))]
    return _paired(about, kinds, decode, prefill, (taken, given_up), alike, reading)


def _mapped(about: str, record: Record, engine: Engine, reading: Reading) -> Pin:
    """Pages of the consumer, each cut into as many as one of the producer's has room for, paired by position."""
    given = record.given
    ratio = int(given["block_size_ratio"])
    if ratio * sum(map(len, given["local_block_ids"])) > PAGES_LIMIT:
        raise NoWords("more pages than are written out")
    kinds = [_kind(engine, number) for number in range(len(given["remote_block_ids"]))]
    local = [
        [page * ratio + part for page in own for part in range(ratio)] if kind in TOKEN_KINDS else list(own)
        for own, kind in zip(given["local_block_ids"], kinds, strict=True)
    ]
    taken, remote = _known(record.answer, "its answer")
    if not any(taken):
        raise NoWords("nothing is to be moved")
    return _paired(about, kinds, local, given["remote_block_ids"], (taken, remote), False, reading)


def _paired(
    about: str,
    kinds: Sequence[Kind],
    target: Sequence[Sequence[int]],
    source: Sequence[Sequence[int]],
    pairs: tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]],
    alike: bool,
    reading: Reading,
) -> Pin:
    """Each group has a region. Where blocks of both sides are alike, what the consumer lists is the prompt's end.

    Where they are not, the target takes no prefix from a cache, and the lists begin together.
    """
    by_token = [number for number, kind in enumerate(kinds) if kind in TOKEN_KINDS]
    reach = [len(source[n]) if alike else min(len(source[n]), len(target[n])) for n in by_token]
    pages = reading.pages or max(reach, default=1)
    tokens = pages * PAGE_TOKENS
    ours, theirs = [], []
    for number, kind in enumerate(kinds):
        if kind in TOKEN_KINDS:
            lacked = len(source[number]) - len(target[number])
            first = reading.cached_pages if reading.cached_pages is not None else max(0, lacked) if alike else 0
            ours.append(Listed(kind, Table(tuple(target[number]), first, first * PAGE_TOKENS), (number,)))
            theirs.append(Listed(kind, Table(tuple(source[number])), (number,)))
        else:
            # Where the consumer lists one state more than there are, its last is one that it computes itself.
            ours.append(Listed(kind, _table(target[number], kind, 0, tokens, len(source[number])), (number,)))
            theirs.append(Listed(kind, _of_producer(_table(source[number], kind, 0, tokens)), (number,)))
    sides = []
    ids = []
    for tables, wanted in ((source, pairs[1]), (target, pairs[0])):
        plots = [
            Plot(max([*tables[n], *wanted[n]], default=0) + 1, _section(kind)) for n, kind in enumerate(kinds)
        ]  # fmt: skip
        starts = [sum(plot.pages for plot in plots[:number]) for number in range(len(plots))]
        ids.append([starts[number] + page for number, own in enumerate(wanted) for page in own])
        sides.append(plots)
    return numbered(about, (sides[0], theirs), (sides[1], ours), tokens, (ids[0], ids[1]))


def _section(kind: Kind) -> Section:
    return kind if kind in ("ssm", "replicated-ssm") else "attention"


def _expanded(about: str, record: Record, engine: Engine, _: Reading) -> Pin:
    """Blocks written out as pages: moved to themselves, they must be the blocks' pages and all of them."""
    blocks: list[list[int]] = record.given["block_ids"]
    ratio: int = record.given.get("ratio") or engine.pages_per_block or 1
    pages: list[list[int]] = _known(record.answer, "its answer")
    specs = engine.groups or ()
    if len(specs) < len(blocks):
        raise NoWords("the test does not say of which kind its groups are")
    kinds: list[Kind] = ["ssm" if SSM_ROOT in specs[n].spec.types else "attention" for n in range(len(blocks))]
    longest = max((len(own) for own, kind in zip(blocks, kinds, strict=True) if kind in TOKEN_KINDS), default=1)
    groups, plots = [], []
    for number, own in enumerate(blocks):
        by_token = kinds[number] in TOKEN_KINDS
        many = ratio if by_token else 1
        first = longest - len(own)
        table = Table(tuple(own), first, first * many * PAGE_TOKENS) if by_token else _table(own, "ssm", 0, 1)
        groups.append(Listed(kinds[number], table, (number,), many * PAGE_TOKENS, many))
        count = max([-1, *own]) + 1
        plots.append(Plot(max(count * many, max([-1, *pages[number]]) + 1, 1), _section(kinds[number])))
    plots = [
        msgspec.structs.replace(plot, pages=-(-plot.pages // group.pages_per_block) * group.pages_per_block)
        for plot, group in zip(plots, groups, strict=True)
    ]
    starts = [sum(plot.pages for plot in plots[:number]) for number in range(len(plots))]
    ids = [starts[number] + page for number, own in enumerate(pages) for page in own]
    source = [msgspec.structs.replace(group, table=_of_producer(group.table)) for group in groups]
    return numbered(about, (plots, source), (plots, groups), longest * ratio * PAGE_TOKENS, (ids, ids))


def _rows(about: str, record: Record, engine: Engine, _: Reading) -> Pin:
    """Rows for regions that are only named by address, length and stride: all pages, moved to themselves."""
    bases: list[int] = _known(record.given.get("base_addresses"), "where its regions are")
    cut: int = record.given["block_size_ratio"]
    lengths, strides = engine.region_bytes or (), engine.region_strides or ()
    counts = engine.region_pages or ()
    rows = tuple(tuple(row) for row in _known(record.answer, "its answer"))
    if sum(counts) > PAGES_LIMIT or sum(row[4] for row in rows) > PAGES_LIMIT:
        raise NoWords("more pages than are written out")
    if cut != 1 or not len(bases) == len(lengths) == len(strides) == len(counts):
        raise NoWords("rows of regions whose sizes the test leaves out")
    plots = [Plot(counts[n], "attention", lengths[n], strides[n]) for n in range(len(bases))]
    longest = max(counts)
    groups = [
        Listed("attention", _table(range(count), "attention", longest, 0), (number,))
        for number, count in enumerate(counts)
    ]
    source = [msgspec.structs.replace(group, table=_of_producer(group.table)) for group in groups]
    named = {f"region {number}": base for number, base in enumerate(bases)}
    first, second = (msgspec.structs.replace(side_of(plots, one), bases=named) for one in (source, groups))
    listed = DescriptorList("VRAM", rows)
    ids = range(sum(row[4] for row in rows))
    return Pin(
        about=about,
        case=case_of(about, first, second, longest * PAGE_TOKENS),
        lists=lists_of(about, first, second, [transfer_of(listed, listed, ids, ids)]),
        real=False,
    )


def _known(value: Any, what: str) -> Any:
    if value is None:
        raise NoWords(f"the test mocks {what}")
    return value


_CALLS: dict[str, Any] = {
    "ids": ("descriptor ids of blocks", _ids),
    "trimmed": ("pages to move where some are cached", _trimmed),
    "mapped": ("pages of two lengths", _mapped),
    "expanded": ("blocks written out as pages", _expanded),
    "rows": ("rows of regions", _rows),
}
