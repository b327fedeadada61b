# SPDX-License-Identifier: Apache-2.0
"""Where each page of a request lies on both sides, and what becomes of it: what ``kvproof explain`` draws."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from kvproof.expectations import ordinals, pages_of, zeroed_of
from kvproof.reference.derive import Derived
from kvproof.spec.judge.runs import block_id, page_id
from kvproof.spec.scope import Covered, LayerPair
from kvproof.spec.world import LayerView, first_token_of

SourceState = Literal["sent", "not sent", "unused", "null", "absent"]
TargetState = Literal["received", "cached", "before window", "zeroed", "unused", "null", "absent"]


class Spot(msgspec.Struct, frozen=True):
    """A page on one side: block id and page id, None where the side's table has nothing at this ordinal."""

    block: int | None
    page: int | None
    state: SourceState | TargetState


class Row(msgspec.Struct, frozen=True):
    """One page ordinal. ``tokens`` is a half-open range, None for kinds whose blocks hold no tokens by position."""

    ordinal: int
    tokens: tuple[int, int] | None
    source: Spot
    target: Spot


class PageMap(msgspec.Struct, frozen=True):
    """All layers whose pages lie alike: those of one group on each side."""

    source_group: str
    target_group: str
    kind: str
    page_tokens: int | None
    layers: tuple[str, ...]
    rows: tuple[Row, ...]


def page_maps(covered: Covered, derived: Derived) -> list[PageMap]:
    """One map for each pair of groups, in the order of the consumer's layers. None without a request."""
    if covered.tokens is None:
        return []
    pairs: dict[tuple[str, str], list[LayerPair]] = {}
    for pair in covered.pairs:
        pairs.setdefault((pair.source.group.name, pair.target.group.name), []).append(pair)
    return [_map(alike, derived, covered.tokens) for alike in pairs.values()]


def _map(pairs: list[LayerPair], derived: Derived, tokens: int) -> PageMap:
    pair = pairs[0]
    target = pair.target
    rows = _token_rows(pair, derived, tokens) if target.by_token else _live_row(pair, derived)
    return PageMap(
        source_group=pair.source.group.name,
        target_group=target.group.name,
        kind=target.group.kind,
        page_tokens=int(target.page.page_tokens) if target.by_token else None,
        layers=tuple(each.target.layer.name for each in pairs),
        rows=tuple(rows),
    )


def _token_rows(pair: LayerPair, derived: Derived, tokens: int) -> Iterator[Row]:
    sent, received = pages_of(pair, derived)
    zeroed = set(zeroed_of(pair, derived))
    first = first_token_of(pair.target, tokens)
    page_tokens = int(pair.target.page.page_tokens)
    sources, targets = set(sent), set(received)
    for ordinal in sorted({*ordinals(pair.source), *ordinals(pair.target)}):
        held = (ordinal * page_tokens, (ordinal + 1) * page_tokens)
        block, page = _at(pair.source, ordinal)
        state: SourceState = _source_state(pair.source, block, page in sources, held, tokens)
        source = Spot(block, page, state)
        block, page = _at(pair.target, ordinal)
        fate = _target_state(pair.target, block, page in targets, page in zeroed, held, first, tokens)
        yield Row(ordinal, held, source, Spot(block, page, fate))


def _source_state(view: LayerView, block: int | None, sent: bool, held: tuple[int, int], tokens: int) -> SourceState:
    if block is None:
        return "absent"
    if block == view.block_table.null:
        return "null"
    if sent:
        return "sent"
    return "unused" if held[0] >= tokens else "not sent"


def _target_state(
    view: LayerView, block: int | None, received: bool, zeroed: bool, held: tuple[int, int], first: int, tokens: int
) -> TargetState:
    if block is None:
        return "absent"
    if block == view.block_table.null:
        return "null"
    if received:
        return "received"
    if zeroed:
        return "zeroed"
    if held[1] <= view.block_table.cached_tokens:
        return "cached"
    return "before window" if held[1] <= first and held[0] < tokens else "unused"


def _live_row(pair: LayerPair, derived: Derived) -> Iterator[Row]:
    sent, received = pages_of(pair, derived)
    source, source_page = _at(pair.source, 0)
    target, target_page = _at(pair.target, 0)
    yield Row(
        0,
        None,
        Spot(source, source_page, "absent" if source is None else "sent" if source_page in sent else "not sent"),
        Spot(target, target_page, "absent" if target is None else "received" if target_page in received else "cached"),
    )


def _at(view: LayerView, ordinal: int) -> tuple[int | None, int | None]:
    """Block id and page id at a page ordinal; None where the table lists none."""
    return (block_id(view, ordinal), page_id(view, ordinal)) if ordinal in ordinals(view) else (None, None)
