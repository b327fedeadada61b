# SPDX-License-Identifier: Apache-2.0
"""What a transfer left in memory, in words, and whether that is what the judge predicted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from kvproof.spec.cells import page_place
from kvproof.spec.judge import words
from kvproof.spec.judge.runs import Run, cell_runs, listed_ordinals, page_id
from kvproof.spec.judge.spans import Spans
from kvproof.spec.judge.verdict import Judgement
from kvproof.spec.place import Place, overlaps
from kvproof.spec.scope import Covered
from kvproof.words import plural

if TYPE_CHECKING:
    from kvproof.gpu_impl.transfer import Corrupt, Report


class Prediction(msgspec.Struct, frozen=True):
    """Required spans that end wrong; those that may, as copies race; pages that should end zero and do not."""

    corrupt: tuple[Place, ...]
    contested: tuple[Place, ...]
    unzeroed: tuple[Place, ...]


def prediction(judgement: Judgement, owed: Iterable[Place], zeroes: Iterable[Place]) -> Prediction:
    """What memory should show. An owed page ends zero if the plan zeroes all of it."""
    zeroed = Spans(zeroes)
    unzeroed = tuple(place for place in owed if any(zeroed.without(place)))
    return Prediction(judgement.corrupt, judgement.contested, unzeroed)


def differences(predicted: Prediction, report: Report, found: Iterable[Place]) -> Iterator[str]:
    """Where memory is not what was predicted.

    ``found`` are the wrong spans of all runs of one transfer: a wrong byte may equal the right one by chance, but not
    under every pattern. Spans past the first ``SPAN_LIMIT`` are only counted in the report, and not compared. Wrong
    spans closer than ``GAP_BYTES`` are reported as one, so that a report may name so many bytes too many between.
    """
    from kvproof.gpu_impl.transfer import SPAN_LIMIT
    from kvproof.gpu_impl.verify import GAP_BYTES

    seen = Spans(found)
    maybe, contested = Spans((*predicted.corrupt, *predicted.contested)), Spans(predicted.contested)
    certain = [piece for place in predicted.corrupt for piece in contested.without(place)]
    for place in seen:
        for extra in maybe.without(place):
            if extra.bytes >= GAP_BYTES or not _between(maybe, extra):
                yield f"{_span(extra)} are wrong in memory, but the judge predicts them right"
                return
    if len(report.corrupt) < SPAN_LIMIT:
        for place in certain:
            for missing in seen.without(place):
                yield f"{_span(missing)} are right in memory, but the judge predicts them wrong"
                return
    if len(report.unzeroed) < SPAN_LIMIT and set(report.unzeroed) != set(predicted.unzeroed):
        pages = plural(len(report.unzeroed), "page")
        yield f"{pages} not zero that should be; the judge predicts {len(predicted.unzeroed)}"
    stray = [place for place in report.mismatches if any(contested.without(place))]
    if stray:
        yield f"{_span(stray[0])} are not what the copies and zeroes of the plan make of them"


def _between(spans: Spans, gap: Place) -> bool:
    """Both neighbours of the gap are in the set."""
    before = Place(gap.storage, gap.offset - 1, 1)
    after = Place(gap.storage, gap.offset + gap.bytes, 1)
    return any(spans.within(before)) and any(spans.within(after))


def corruption_words(covered: Covered, corrupt: Iterable[Corrupt]) -> list[str]:
    """Each wrong span: which tokens of which layer, and what lies there instead."""
    runs = [run for run in cell_runs(covered) if run.standing == "required"]
    return [text for span in corrupt for text in _words_of(covered, runs, span)]


def _words_of(covered: Covered, runs: list[Run], span: Corrupt) -> Iterator[str]:
    hits = [run for run in runs if overlaps(run.target, span.place)]
    if not hits:
        yield f"{_span(span.place)} are not the producer's"
        return
    run = hits[0]
    start = max(run.target.offset, span.place.offset)
    end = min(run.target.offset + run.target.bytes, span.place.offset + span.place.bytes)
    hit = Place(run.target.storage, start, end - start)
    one = not run.pair.target.by_token
    if span.zero:
        fate = "is zero" if one else "are zero"
    elif span.found is None:
        fate = "holds other bytes" if one else "hold other bytes"
    elif span.found.storage == hit.storage:
        fate = "still holds what was there before" if one else "still hold what was there before"
    else:
        origin = Place(span.found.storage, span.found.offset + start - span.place.offset, hit.bytes)
        fate = f"{'holds' if one else 'hold'} the bytes of {words.holder(covered, origin)}"
    yield f"{_place_words(run, hit)} {fate}{words.more(hits)}"


def unzeroed_words(covered: Covered, places: Iterable[Place]) -> list[str]:
    """Each page that should have ended zero."""
    pages = ((view, ordinal) for view in covered.consumer.layers if view.by_token for ordinal in listed_ordinals(view))
    owed = {_start(page_place(view.page, page_id(view, ordinal))): (view, ordinal) for view, ordinal in pages}
    tokens = covered.tokens or 0
    return [
        words.not_zeroed(*owed[_start(place)], tokens) if _start(place) in owed else f"{_span(place)} do not end zero"
        for place in places
    ]


def _place_words(run: Run, hit: Place) -> str:
    seen = words.in_run(run, hit)
    held = words.token_words(seen.tokens) if seen.tokens is not None else f"the {run.pair.target.group.kind} state"
    part = f" of part {seen.part}" if seen.part is not None else ""
    some = f" ({plural(hit.bytes, 'byte')} from {hit.offset - run.target.offset} on)"
    whole = "" if hit.bytes == run.target.bytes else some
    return f"{seen.worker}, {seen.layer}, page {seen.page}: {held}{part}{whole}"


def _start(place: Place) -> tuple[str, int]:
    return str(place.storage), int(place.offset)


def _span(place: Place) -> str:
    return f"bytes {place.offset}–{place.offset + place.bytes - 1} of {place.storage}"
