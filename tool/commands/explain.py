# SPDX-License-Identifier: Apache-2.0
"""``kvproof explain``: the pages of a case, on both sides, in the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec

from kvproof.exits import Exit
from kvproof.options import CaseFile, Json
from kvproof.output import Output
from kvproof.pagemap import PageMap, Row, Spot, page_maps
from kvproof.reference.derive import Derived, derive
from kvproof.sources import case_source, read_case
from kvproof.spec.judge.judge import judge
from kvproof.spec.judge.verdict import Judgement
from kvproof.spec.scope import Covered, assess
from kvproof.spec.tables import Region
from kvproof.spec.vocabulary import Case, Layer
from kvproof.words import headline, judgement_data, plural, summary

ALIKE_SHOWN = 8
"""Rows of pages with one fate that are shown in full; of more, the first and the last three."""

ROWS_SHOWN = 60
LAYERS_SHOWN = 3
MEMBERS_SHOWN = 2
REGIONS_SHOWN = 16
IDS_SHOWN = 12


def command(case: CaseFile, /, *, json: Json = False) -> int:
    """Draw where the pages of each layer lie on both sides, and what becomes of them.

    Exit 0 for any case that kvproof models, refused ones included; 3 for one that it does not.
    """
    out = Output(json)
    source = case_source(case)
    loaded = read_case(source)
    scope = assess(loaded)
    derived = derive(loaded) if isinstance(scope, Covered) else None
    judgement = judge(scope, derived.plan, derived.tables) if derived is not None else judge(scope)
    maps = page_maps(scope, derived) if isinstance(scope, Covered) and derived is not None else []
    _print(out, loaded, judgement, maps, derived)
    status = Exit.UNKNOWN if judgement.verdict == "not-covered" else Exit.OK
    out.answer(
        "explain",
        status,
        {
            "case": loaded.name,
            "title": loaded.title,
            "tokens": loaded.request.tokens if loaded.request is not None else None,
            **judgement_data(judgement),
            "maps": [msgspec.to_builtins(page_map) for page_map in maps],
            "regions": _regions_data(derived),
            "ids": _ids(loaded, derived),
        },
    )
    return status


def _print(out: Output, case: Case, judgement: Judgement, maps: list[PageMap], derived: Derived | None) -> None:
    out.line(case.name, "head")
    if case.title:
        out.line(case.title)
    producer, consumer = (", ".join(worker.name for worker in case.workers(role)) for role in ("producer", "consumer"))
    tokens = plural(case.request.tokens, "token") if case.request is not None else "no request"
    out.line(f"{producer or 'no producer'} → {consumer or 'no consumer'}, {tokens}")
    out.line(f"verdict: {summary(judgement)}", "good" if judgement.verdict == "lawful" else "bad")
    if headline(judgement):
        out.line(f"    {headline(judgement)}")
    for page_map in maps:
        _print_map(out, page_map, producer, consumer)
    if derived is not None:
        _print_regions(out, case, derived)
        _print_ids(out, case, derived)


def _print_map(out: Output, page_map: PageMap, producer: str, consumer: str) -> None:
    names = ", ".join(page_map.layers[:LAYERS_SHOWN])
    more = len(page_map.layers) - LAYERS_SHOWN
    size = f", {plural(page_map.page_tokens, 'token')} a page" if page_map.page_tokens is not None else ""
    out.line()
    groups = f"{producer} {page_map.source_group} → {consumer} {page_map.target_group}"
    out.line(f"{groups} ({page_map.kind}{size})", "head")
    out.line(f"  {names}{f' and {more} more' if more > 0 else ''}")
    heads = ("page", "tokens", f"{producer} block", "page", "", "", f"{consumer} block", "page", "")
    out.table(heads, _cells(page_map.rows))


def _cells(rows: Sequence[Row]) -> Iterator[Sequence[str]]:
    shown = 0
    for _, run in groupby(rows, key=lambda row: (row.source.state, row.target.state)):
        alike = list(run)
        left = len(rows) - shown
        if shown >= ROWS_SHOWN:
            yield (f"… {left} more", *[""] * 8)
            return
        if len(alike) <= ALIKE_SHOWN:
            yield from (_row_cells(row) for row in alike)
        else:
            yield from (_row_cells(row) for row in alike[:3])
            yield (f"… {len(alike) - 6} more", *[""] * 8)
            yield from (_row_cells(row) for row in alike[-3:])
        shown += len(alike)


def _row_cells(row: Row) -> Sequence[str]:
    ordinal = "live" if row.tokens is None else str(row.ordinal)
    tokens = "" if row.tokens is None else f"{row.tokens[0]}–{row.tokens[1] - 1}"
    arrow = "→" if row.target.state == "received" else ""
    return (ordinal, tokens, *_spot_cells(row.source), arrow, *_spot_cells(row.target))


def _spot_cells(spot: Spot) -> Sequence[str]:
    if spot.block is None:
        return ("–", "–", "")
    return (str(spot.block), "–" if spot.state == "null" else str(spot.page), spot.state)


def _print_regions(out: Output, case: Case, derived: Derived) -> None:
    for worker, regions in derived.tables.registered.items():
        layers = _layers(case, worker)
        out.line()
        out.line(f"{worker}: {plural(len(regions), 'region')}", "head")
        heads = ("", "storage", "offset", "bytes", "stride", "pages", "section", "layers")
        out.table(
            heads, (_region_cells(number, region, layers) for number, region in enumerate(regions[:REGIONS_SHOWN]))
        )
        if len(regions) > REGIONS_SHOWN:
            out.line(f"  … and {len(regions) - REGIONS_SHOWN} more")


def _region_cells(number: int, region: Region, layers: Mapping[str, Layer]) -> Sequence[str]:
    storage = str(region.storage).split("/", 1)[1]
    numbers = (region.offset, region.bytes, region.stride, region.pages)
    return (str(number), storage, *map(str, numbers), region.section, _member_words(region, layers))


def _layers(case: Case, worker: str) -> dict[str, Layer]:
    return {layer.name: layer for each in case.worker if each.name == worker for layer in each.layers}


def _member_words(region: Region, layers: Mapping[str, Layer]) -> str:
    """The layers that a region stands for."""
    members = [
        member.layer if member.part is None else f"{member.layer}, {layers[member.layer].parts[member.part].name}"
        for member in region.members
    ]
    more = len(members) - MEMBERS_SHOWN
    return f"{', '.join(members[:MEMBERS_SHOWN])}{f' and {more} more' if more > 0 else ''}"


def _print_ids(out: Output, case: Case, derived: Derived) -> None:
    ids = _ids(case, derived)
    if not any(ids.values()):
        return
    out.line()
    out.line("descriptor ids, paired by position", "head")
    tables, start = derived.tables, 0
    for pairing in tables.pairings[:REGIONS_SHOWN]:
        end = start + len(pairing.source_pages)
        source, target = tables.source[pairing.source], tables.target[pairing.target]
        layers = _layers(case, str(target.storage).split("/", 1)[0])
        out.line(f"  {pairing.group}: {source.storage} → {target.storage}, {_member_words(target, layers)}")
        for worker, numbers in ids.items():
            shown = ", ".join(str(number) for number in numbers[start:end][:IDS_SHOWN])
            more = f", … {end - start} in all" if end - start > IDS_SHOWN else ""
            out.line(f"    {worker}: {shown}{more}")
        start = end
    if len(tables.pairings) > REGIONS_SHOWN:
        out.line(f"  … and {len(tables.pairings) - REGIONS_SHOWN} more")


def _ids(case: Case, derived: Derived | None) -> dict[str, list[int]]:
    if derived is None:
        return {}
    names = (case.workers("producer")[0].name, case.workers("consumer")[0].name)
    return dict(zip(names, (list(derived.tables.source_ids), list(derived.tables.target_ids)), strict=True))


def _regions_data(derived: Derived | None) -> dict[str, list[Any]]:
    if derived is None:
        return {}
    return {
        worker: [msgspec.to_builtins(region) for region in regions]
        for worker, regions in derived.tables.registered.items()
    }
