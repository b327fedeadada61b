# SPDX-License-Identifier: Apache-2.0
"""What a case expects, against what came out. Each function yields the misses, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kvproof.reference.derive import Derived
from kvproof.spec.judge.runs import page_id
from kvproof.spec.judge.verdict import LAWS, Judgement
from kvproof.spec.scope import Covered, LayerPair
from kvproof.spec.vocabulary import Case, Expect, Law
from kvproof.spec.world import LayerView
from kvproof.words import ratio_words


def verdict_misses(expect: Expect, judgement: Judgement) -> Iterator[str]:
    """Verdict and reason."""
    if expect.verdict is not None and expect.verdict != judgement.verdict:
        because = f" ({judgement.reason})" if judgement.reason else ""
        yield f"expect.verdict: {expect.verdict} expected, found {judgement.verdict}{because}"
    if expect.reason is not None and expect.reason not in (judgement.reason or ""):
        found = f"the reason is {judgement.reason!r}" if judgement.reason else "there is no reason"
        yield f"expect.reason: {expect.reason!r} expected, but {found}"


def ratio_misses(expect: Expect, rule: str, judgement: Judgement) -> Iterator[str]:
    """The economy of each moved group under one rule."""
    for group, wanted in expect.ratio.get(rule, {}).items():
        found = judgement.ratios.get(group)
        if found is None:
            yield f"expect.ratio.{rule}: {group}: {ratio_words(*wanted)} expected, but nothing is moved for it"
        elif not found[1] or found[0] * wanted[1] != found[1] * wanted[0]:
            yield f"expect.ratio.{rule}: {group}: {ratio_words(*wanted)} expected, found {ratio_words(*found)}"


def table_misses(case: Case, covered: Covered, derived: Derived) -> Iterator[str]:
    """Pages, zeroed pages, regions and ids of the lawful plan."""
    yield from _page_misses(case.expect, covered, derived)
    yield from _zero_misses(case.expect, covered, derived)
    yield from _region_misses(case.expect, derived)
    ids = {covered.producer.name: derived.tables.source_ids, covered.consumer.name: derived.tables.target_ids}
    for worker, wanted in case.expect.ids.items():
        yield from _list_miss(f"expect.ids.{worker}", wanted, ids[worker])


def fault_miss(wanted: tuple[Law, ...] | str, found: tuple[Law, ...] | str) -> str | None:
    """The exact set of laws that a faulty rule breaks, or ``refused``."""
    if isinstance(wanted, str) or isinstance(found, str):
        same = wanted == found
    else:
        same = set(wanted) == set(found)
    return None if same else f"{outcome_words(wanted)} expected, found {outcome_words(found)}"


def outcome_words(outcome: tuple[Law, ...] | str) -> str:
    """What a rule does, in words."""
    if isinstance(outcome, str):
        return outcome
    return ", ".join(sorted(outcome, key=LAWS.index)) if outcome else "no law broken"


def pages_of(pair: LayerPair, derived: Derived) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The page ids of a layer that move, on the producer and on the consumer, paired by position."""
    for pairing in derived.tables.pairings:
        region = derived.tables.target[pairing.target]
        if pairing.group == pair.target.group.name and any(m.layer == pair.target.layer.name for m in region.members):
            return pairing.source_pages, pairing.target_pages
    return (), ()


def zeroed_of(pair: LayerPair, derived: Derived) -> tuple[int, ...]:
    """The page ids of a consumer layer that are zeroed."""
    page, listed = pair.target.page, {page_id(pair.target, ordinal) for ordinal in ordinals(pair.target)}
    places = (
        place for place in derived.plan.zeroes if place.storage == page.storage and place.bytes == page.page_bytes
    )
    numbers = (divmod(place.offset - page.offset, page.page_stride) for place in places)
    return tuple(number for number, rest in numbers if rest == 0 and number in listed)


def ordinals(view: LayerView) -> range:
    """The page ordinals that a layer's table lists, null blocks included."""
    table, per_block = view.block_table, int(view.page.pages_per_block)
    return range(table.first * per_block, (table.first + table.count) * per_block)


def _pairs_named(covered: Covered, layer: str, worker: str) -> Iterator[LayerPair]:
    for pair in covered.pairs:
        view = pair.source if worker == covered.producer.name else pair.target
        if layer in (view.layer.name, view.key):
            yield pair


def _page_misses(expect: Expect, covered: Covered, derived: Derived) -> Iterator[str]:
    for layer, by_worker in expect.pages.items():
        for worker, wanted in by_worker.items():
            side = 0 if worker == covered.producer.name else 1
            found = [pages_of(pair, derived)[side] for pair in _pairs_named(covered, layer, worker)]
            yield from _list_miss(f"expect.pages.{layer!r}.{worker}", wanted, found[0] if found else ())


def _zero_misses(expect: Expect, covered: Covered, derived: Derived) -> Iterator[str]:
    for layer, by_worker in expect.zeroed.items():
        for worker, wanted in by_worker.items():
            pairs = _pairs_named(covered, layer, worker) if worker == covered.consumer.name else iter(())
            found = [zeroed_of(pair, derived) for pair in pairs]
            yield from _list_miss(f"expect.zeroed.{layer!r}.{worker}", wanted, found[0] if found else ())


def _region_misses(expect: Expect, derived: Derived) -> Iterator[str]:
    for worker, wanted in expect.regions.items():
        found = [
            (region.storage.split("/", 1)[1], region.offset, region.bytes, region.stride, region.pages)
            for region in derived.tables.registered[worker]
        ]
        yield from _list_miss(f"expect.regions.{worker}", wanted, found)


def _list_miss(what: str, wanted: Iterable[object], found: Iterable[object]) -> Iterator[str]:
    wanted, found = list(wanted), list(found)
    if wanted != found:
        yield f"{what}: {_brief(wanted)} expected, found {_brief(found)}"


def _brief(items: list[object]) -> str:
    shown = ", ".join(str(list(item) if isinstance(item, tuple) else item) for item in items[:12])
    return f"[{shown}, … {len(items)} in all]" if len(items) > 12 else f"[{shown}]"
