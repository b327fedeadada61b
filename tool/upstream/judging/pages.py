# SPDX-License-Identifier: Apache-2.0
"""Which pages of the producer went to which pages of the consumer, layer by layer: a plan as engineers think of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from kvproof.reference.derive import derive
from kvproof.spec.cells import page_place
from kvproof.spec.judge.runs import listed_ordinals, page_id
from kvproof.spec.judge.spans import overlapping
from kvproof.spec.place import Place
from kvproof.spec.plan import Copy, Plan
from kvproof.spec.scope import Covered, LayerPair
from kvproof.spec.vocabulary import Case
from kvproof.spec.world import LayerView

PAGES_SHOWN = 12

Moved = tuple[tuple[int, int], ...]
"""Page ids of the producer and of the consumer, by page ordinal of the consumer."""


class LayerPages(msgspec.Struct, frozen=True):
    """The whole pages that came for a layer of the consumer, and those that should have.

    A page counts if all of its parts come from one page of the layer's twin.
    """

    layer: str
    moved: Moved
    lawful: Moved


def layer_pages(case: Case, covered: Covered, plan: Plan) -> tuple[LayerPages, ...]:
    """For each layer of the consumer, in the case's order, for which a page came or should have."""
    seen, right = whole_pages(covered, plan), whole_pages(covered, derive(case).plan)
    rows = zip(covered.pairs, seen, right, strict=True)
    return tuple(LayerPages(pair.target.layer.name, *both) for pair, *both in rows if any(both))


def whole_pages(covered: Covered, plan: Plan) -> list[Moved]:
    """For each pair of layers, the whole pages that the plan moves into listed blocks of the consumer."""
    pages = [(number, pair, page) for number, pair in enumerate(covered.pairs) for page in _listed(pair.target)]
    places = [content(pair.target, page) for _, pair, page in pages]
    hits: list[list[Copy]] = [[] for _ in pages]
    for index, copy in overlapping(places, [copy.target for copy in plan.copies]):
        hits[index].append(plan.copies[copy])
    found: list[list[tuple[int, int]]] = [[] for _ in covered.pairs]
    for (number, pair, page), place, copies in zip(pages, places, hits, strict=True):
        source = _source_page(pair, place, copies)
        if source is not None:
            found[number].append((source, page))
    return [tuple(moved) for moved in found]


def content(view: LayerView, page: int) -> Place:
    """The page without the padding behind its last part; an opaque page is all content."""
    place, last = page_place(view.page, page), view.parts[-1]
    length = last.start + last.count * view.page.states_per_page * last.unit_bytes
    return Place(place.storage, place.offset, length)


def _listed(view: LayerView) -> Iterator[int]:
    return (page_id(view, ordinal) for ordinal in listed_ordinals(view))


def _source_page(pair: LayerPair, place: Place, copies: Sequence[Copy]) -> int | None:
    """The twin's page that all of the place comes from."""
    origins = {(copy.source.storage, copy.source.offset - copy.target.offset) for copy in copies}
    if len(origins) != 1 or not _covered(place, [copy.target for copy in copies]):
        return None
    [(storage, shift)] = origins
    twin = pair.source.page
    number, within = divmod(place.offset + shift - twin.offset, twin.page_stride)
    return int(number) if storage == twin.storage and within == 0 and 0 <= number < twin.pages else None


def _covered(place: Place, targets: Iterable[Place]) -> bool:
    reached = place.offset
    for target in sorted(targets, key=lambda target: int(target.offset)):
        if target.offset > reached:
            return False
        reached = max(reached, target.offset + target.bytes)
    return bool(reached >= place.offset + place.bytes)


def page_words(pages: Iterable[LayerPages]) -> list[str]:
    """``pages 7, 10, 11 for 6, 7, 10``, for all layers in which the wrong pages came; layers alike are named once."""
    layers: dict[str, list[str]] = {}
    for one in pages:
        text = _differences(one)
        if text:
            layers.setdefault(text, []).append(one.layer)
    return [f"{_names(names)}: {text}" for text, names in layers.items()]


def _differences(one: LayerPages) -> str:
    seen = {target: source for source, target in one.moved}
    wrong = [(source, target) for source, target in one.lawful if seen.get(target, source) != source]
    listed = {target for _, target in one.lawful}
    extra = [target for _, target in one.moved if target not in listed]
    parts = []
    if wrong:
        came = [seen[target] for _, target in wrong]
        parts.append(f"page{'' if len(wrong) == 1 else 's'} {_list(came)} for {_list([source for source, _ in wrong])}")
    if extra:
        parts.append(f"page{'' if len(extra) == 1 else 's'} {_list(extra)} besides")
    return "; ".join(parts)


def _list(pages: Sequence[int]) -> str:
    more = f" and {len(pages) - PAGES_SHOWN} more" if len(pages) > PAGES_SHOWN else ""
    return ", ".join(map(str, pages[:PAGES_SHOWN])) + more


def _names(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
