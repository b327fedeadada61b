# SPDX-License-Identifier: Apache-2.0
"""What is different between what two targets did with one case: verdict, laws, economy, regions, bytes that move."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from kvproof.exits import Exit, worst
from kvproof.spec.judge.lists import read_lists
from kvproof.spec.judge.spans import Spans
from kvproof.upstream.judging.cause import Origins, origins
from kvproof.upstream.judging.outcome import Outcome, SeenRow
from kvproof.upstream.judging.wording import outcome_words, summary
from kvproof.upstream.matrix.rows import Row
from kvproof.words import plural, ratio_words

LAYERS_SHOWN = 8
REGIONS_SHOWN = 6

BADNESS = {
    "lawful": 0, "refused rightly": 0, "wasteful": 1, "refused needlessly": 2, "hazard": 3, "corrupt": 4, "crashed": 4,
    "hung": 4, "garbage": 4,
}  # fmt: skip
"""How bad an outcome is for whoever ships it. What is not covered, unknown or our own fault has no place here."""

WORSE_THAN_UNKNOWN = 3
"""From here on an outcome is bad news even where nothing is known of the base."""


class Change(msgspec.Struct, frozen=True):
    """One case on which two targets differ. ``words``: what it is in, from the verdict down to single regions."""

    before: Row
    after: Row
    kind: str
    words: tuple[str, ...]
    worse: bool

    @property
    def case(self) -> str:
        """The case's name."""
        return self.before.subject.case.name


def changes(before: Iterable[Row], after: Iterable[Row]) -> list[Change]:
    """Where two runs of the same cases differ, worst first."""
    pairs = ((first, second, differences(first, second)) for first, second in zip(before, after, strict=True))
    found = [_change(first, second, words) for first, second, words in pairs if words]
    return sorted(found, key=lambda change: (not change.worse, -(badness(change.after.outcome) or 0)))


def status_of_changes(before: Sequence[Row], after: Sequence[Row], found: Sequence[Change]) -> Exit:
    """Broken if anything is worse; unknown if there is no answer in the second run, or some are gone."""
    exits = [Exit.BROKEN for change in found if change.worse]
    exits += [Exit.FAULT for row in (*before, *after) if row.outcome.verdict == "fault"]
    exits += [
        Exit.UNKNOWN
        for change in found
        if badness(change.after.outcome) is None and badness(change.before.outcome) is not None
    ]
    if all(badness(row.outcome) is None for row in after):
        exits.append(Exit.UNKNOWN)
    return worst(exits)


def badness(outcome: Outcome) -> int | None:
    """The outcome's place from lawful to corrupt; None if it has none."""
    return BADNESS.get(outcome_words(outcome))


def differences(before: Row, after: Row) -> tuple[str, ...]:
    """What is different, in words. Nothing: the same."""
    first, second = before.outcome, after.outcome
    lines = []
    if _judged(first) != _judged(second):
        lines.append(f"{summary(first)} → {summary(second)}")
    elif _answer(first) != _answer(second):
        lines += [f"{summary(first)}, with other words", f"before: {_said(first)}", f"after: {_said(second)}"]
    lines += _economy(first, second)
    if _reach(first) != _reach(second) and _answer(first) == _answer(second) == _judged(first):
        lines.append(f"{_reach(first)} → {_reach(second)}")
    lines += [] if first.lists is None or second.lists is None else _geometry(before, first, second)
    return tuple(lines)


def _change(before: Row, after: Row, words: tuple[str, ...]) -> Change:
    first, second = before.outcome, after.outcome
    kind = f"newly {outcome_words(second)}" if outcome_words(first) != outcome_words(second) else "changed"
    return Change(before, after, kind, words, _worse(first, second))


def _worse(first: Outcome, second: Outcome) -> bool:
    now, was = badness(second), badness(first)
    if now is None:
        return False
    if was is None:
        return now >= WORSE_THAN_UNKNOWN
    return now > was or (now == was and any(_dearer(first, second)))


def _dearer(first: Outcome, second: Outcome) -> Iterator[str]:
    """Groups that move more for nothing than before."""
    for group, (moved, useful) in second.ratios.items():
        was = first.ratios.get(group)
        if was is not None and moved * was[1] > was[0] * useful:
            yield group


def _answer(outcome: Outcome) -> tuple[object, ...]:
    """What a reader takes away. Messages of a target are part of it only where they are all that there is."""
    said = (outcome.told.error, outcome.told.message) if outcome.told is not None else None
    return outcome_words(outcome), outcome.laws, said


def _said(outcome: Outcome) -> str:
    return outcome.words or "nothing"


def _judged(outcome: Outcome) -> tuple[object, ...]:
    return outcome_words(outcome), outcome.laws, None


def _reach(outcome: Outcome) -> str:
    return outcome.reached.tag if outcome.reached is not None else "reach unknown"


def _economy(first: Outcome, second: Outcome) -> Iterator[str]:
    for group in dict.fromkeys((*first.ratios, *second.ratios)):
        was, now = first.ratios.get(group), second.ratios.get(group)
        if was is not None and now is not None and was[0] * now[1] != now[0] * was[1]:
            yield f"bytes moved ÷ useful of {group}: {ratio_words(*was)} → {ratio_words(*now)}"


def _geometry(row: Row, first: Outcome, second: Outcome) -> Iterator[str]:
    for worker in dict.fromkeys((*first.regions, *second.regions)):
        yield from _regions(worker, first.regions.get(worker, ()), second.regions.get(worker, ()))
    was, now = _moves(row, first), _moves(row, second)
    if was != now:
        fewer, more = _bytes(was), _bytes(now)
        amounts = ", as many as before" if fewer == more else f": {plural(fewer, 'byte')} → {plural(more, 'byte')}"
        yield f"other bytes move{amounts}"
        yield from _pages(first, second)
    elif _ids(first) != _ids(second):
        yield "other descriptor ids for the same bytes"


def _regions(worker: str, was: Sequence[SeenRow], now: Sequence[SeenRow]) -> Iterator[str]:
    gone = [region for region in was if region not in now]
    new = [region for region in now if region not in was]
    if gone or new:
        yield f"regions of {worker}: {_listed(gone)} → {_listed(new)}"
    elif was != now:
        yield f"regions of {worker}: the same in another order, or another number of times"


def _listed(regions: Sequence[SeenRow]) -> str:
    rest = len(regions) - REGIONS_SHOWN
    words = [region_words(region) for region in regions[:REGIONS_SHOWN]]
    return "; ".join([*words, *([f"{rest} more"] if rest > 0 else [])]) or "none"


def region_words(region: SeenRow) -> str:
    """``kv at 0, 9 pages of 19,008 bytes every 38,016 (swa, ring)``."""
    where = f"{region.storage} at" if region.storage is not None else "outside every storage, at address"
    groups = f" ({', '.join(region.groups)})" if region.groups else ""
    return f"{where} {region.offset}, {region.pages:,} pages of {region.bytes:,} bytes every {region.stride:,}{groups}"


def _moves(row: Row, outcome: Outcome) -> Origins:
    assert outcome.lists is not None
    copies = read_lists(row.subject.case, outcome.lists).plan.copies
    return origins(copies, Spans(copy.target for copy in copies))


def _bytes(moves: Origins) -> int:
    return sum(length for spans in moves.values() for _, length in spans)


def _pages(first: Outcome, second: Outcome) -> Iterator[str]:
    was = {one.layer: one.moved for one in first.pages}
    now = {one.layer: one.moved for one in second.pages}
    differ = [layer for layer in dict.fromkeys((*was, *now)) if was.get(layer, ()) != now.get(layer, ())]
    for layer in differ[:LAYERS_SHOWN]:
        yield f"whole pages of {layer}: {_moved(was.get(layer, ()))} → {_moved(now.get(layer, ()))}"


def _moved(pages: Iterable[tuple[int, int]]) -> str:
    return ", ".join(f"{source}→{target}" for source, target in pages) or "none"


def _ids(outcome: Outcome) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    assert outcome.lists is not None
    return [(transfer.source_ids, transfer.target_ids) for transfer in outcome.lists.transfers]
