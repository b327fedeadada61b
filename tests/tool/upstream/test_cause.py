# SPDX-License-Identifier: Apache-2.0
"""Which known rule explains a finding, and by which words the rest are told apart."""

from pathlib import Path

import msgspec
import pytest
from targets import SYNTHETIC, observed

from kvproof.reference.faults import FAULTS
from kvproof.spec.judge.spans import Spans
from kvproof.spec.place import Place
from kvproof.spec.plan import Copy
from kvproof.spec.validate import load_case
from kvproof.spec.vocabulary import Case
from kvproof.upstream.judging.cause import cause_of, explaining, origins
from kvproof.upstream.judging.outcome import Outcome, outcome_of
from kvproof.upstream.protocol import Answer, Observed, RefusedBy
from kvproof.upstream.running.lost import Lost

FOLDER = Path(__file__).parents[3] / "cases" / "regressions"
NOWHERE = Path("/nonexistent")


def case_named(name: str) -> Case:
    return load_case((FOLDER / f"{name}.toml").read_bytes())


TAIL = case_named("hisparse-padded-tail")


def judged(case: Case, answer: Answer | Lost) -> Outcome:
    return outcome_of(case, answer, NOWHERE)


def cause(case: Case, answer: Answer | Lost) -> str:
    return cause_of(case, judged(case, answer))


@pytest.mark.parametrize(
    ("name", "fault", "alike"),
    [
        ("hisparse-padded-tail", "suffix-selection", ()),
        ("hisparse-both-padded", "suffix-selection", ()),
        ("v41-flash-window-and-ring", "fold-by-base", ()),
        ("later-page-truncates-earlier", "fold-by-base", ("row-fold-by-base",)),
        ("v41-aliased-groups-transfer", "row-fold-by-base", ()),
        ("v41-aliased-groups-transfer", "row-fold-by-base-and-length", ()),
        ("v41-aliased-groups", "row-fold-by-base", ()),
        ("v41-aliased-groups", "row-fold-by-base-and-length", ()),
    ],
)
def test_a_rule_that_does_just_this(name: str, fault: str, alike: tuple[str, ...]) -> None:
    case = case_named(name)
    found = judged(case, observed(case, FAULTS[fault].rules))
    assert explaining(case, found) == (fault, *alike)
    assert cause_of(case, found) == fault


def test_nothing_wrong_has_no_cause() -> None:
    assert explaining(TAIL, judged(TAIL, observed(TAIL))) == ()
    harmless = case_named("exact-alias-two-groups")
    assert explaining(harmless, judged(harmless, observed(harmless, FAULTS["fold-by-base"].rules))) == ()


def tail_with(source_ids: tuple[int, ...]) -> Observed:
    """The padded tail with other pages for the first layer."""
    seen = observed(TAIL, FAULTS["suffix-selection"].rules)
    [first, *rest] = seen.transfers
    return msgspec.structs.replace(seen, transfers=(msgspec.structs.replace(first, source_ids=source_ids), *rest))


def test_the_rules_that_break_the_same_laws_elsewhere_do_not_explain_it() -> None:
    assert cause(TAIL, tail_with((21, 22, 23))) == "suffix-selection"
    assert cause(TAIL, tail_with((21, 22, 24))) == "alignment in attention"


def test_the_same_bytes_with_other_laws_broken_are_another_cause() -> None:
    """Suffix selection leaves page 25 of the host and 89 of the index as they are; this target zeroes them."""
    case = case_named("hisparse-reverse-geometry-cached")
    seen = observed(case, FAULTS["suffix-selection"].rules)
    assert cause(case, seen) == "suffix-selection"
    zeroes = observed(case).zeroes
    assert len(zeroes) == 2
    assert cause(case, msgspec.structs.replace(seen, zeroes=zeroes)) == "alignment in attention"


def test_the_same_regions_with_other_laws_broken_are_another_cause() -> None:
    case = case_named("v41-aliased-groups")
    seen = observed(case, FAULTS["row-fold-by-base"].rules)
    workers = {
        name: msgspec.structs.replace(
            worker, regions=tuple(msgspec.structs.replace(r, groups=("g0", "g1")) for r in worker.regions or ())
        )
        for name, worker in seen.workers.items()
    }
    found = judged(case, msgspec.structs.replace(seen, workers=workers))
    assert (found.laws, explaining(case, found)) == (("folding",), ())


def test_another_cut_of_the_same_bytes_is_the_same_cause() -> None:
    seen = observed(TAIL, FAULTS["suffix-selection"].rules)
    [first, *rest] = seen.transfers
    base = seen.workers["P0"].bases["main"]
    halves = msgspec.structs.replace(first.source, rows=((base, 32, 0, 32, 200),))
    theirs = msgspec.structs.replace(
        first.target, rows=((seen.workers["D0"].bases["host"], 32, 0, 32, 200),), sections=None
    )
    cut = msgspec.structs.replace(
        first,
        source=msgspec.structs.replace(halves, sections=None),
        target=theirs,
        source_ids=(42, 43, 44, 45, 46, 47),
        target_ids=(60, 61, 62, 63, 64, 65),
    )
    assert cause(TAIL, msgspec.structs.replace(seen, transfers=(cut, *rest))) == "suffix-selection"


def test_the_kinds_that_are_hit() -> None:
    case = case_named("v41-flash-window-and-ring")
    seen = observed(case)
    [one] = seen.transfers
    without_ring = msgspec.structs.replace(one, source_ids=one.source_ids[:-1], target_ids=one.target_ids[:-1])
    assert cause(case, msgspec.structs.replace(seen, transfers=(without_ring,))) == "coverage in ring"
    assert cause(case, msgspec.structs.replace(seen, transfers=())) == "coverage in ring, sliding"


def test_pages_folded_into_a_shorter_region_at_their_base() -> None:
    """The window's region of 19008 bytes stays; the ring page of 32768 is not moved at all, so no known rule did it."""
    case = case_named("v41-flash-window-and-ring")
    seen = observed(case, FAULTS["fold-by-base"].rules)
    [one] = seen.transfers
    without_ring = msgspec.structs.replace(one, source_ids=one.source_ids[:-1], target_ids=one.target_ids[:-1])
    assert cause(case, msgspec.structs.replace(seen, transfers=(without_ring,))) == (
        "coverage and folding in ring: pages folded into a shorter region at their base"
    )
    whole = observed(case).workers
    fine = msgspec.structs.replace(seen, workers=whole, transfers=(without_ring,))
    assert cause(case, fine) == "coverage in ring"


def test_more_bytes_than_the_rule_moves_do_not_hide_it() -> None:
    """All of the padded tail's wrong pages, and a page of the first layer again: still the same rule, only dearer."""
    seen = observed(TAIL, FAULTS["suffix-selection"].rules)
    [first, *rest] = seen.transfers
    again = msgspec.structs.replace(first, source_ids=first.source_ids[:1], target_ids=first.target_ids[:1])
    found = judged(TAIL, msgspec.structs.replace(seen, transfers=(first, again, *rest)))
    assert (found.laws, "economy" in found.others[0]) == (("alignment",), True)
    assert cause_of(TAIL, found) == "suffix-selection"


def test_the_groups_that_move_too_much() -> None:
    case = case_named("v41-flash-window-and-ring")
    seen = observed(case)
    [one] = seen.transfers
    # P0 8 to D0 2, sliding, again; by a second transfer, so that no id of one list stands twice.
    again = msgspec.structs.replace(one, source_ids=(8,), target_ids=(2,))
    found = judged(case, msgspec.structs.replace(seen, transfers=(one, again)))
    assert (found.verdict, cause_of(case, found)) == ("wasteful", "economy in sliding")
    without_ring = msgspec.structs.replace(one, source_ids=one.source_ids[:-1], target_ids=one.target_ids[:-1])
    assert cause(case, msgspec.structs.replace(seen, transfers=(without_ring, again))) == "coverage in ring"


def test_a_refusal_by_its_error_and_where_it_was_raised() -> None:
    message = "Group 3 of 0x7f00 has\n12 blocks, not 11"
    refused = RefusedBy("read", "AssertionError", message, ("vllm/nixl/worker.py", 120), SYNTHETIC)
    assert cause(TAIL, refused) == "AssertionError in worker.py: Group # of # has # blocks, not #"
    assert cause(TAIL, msgspec.structs.replace(refused, message="")) == "AssertionError in worker.py"
    odd = msgspec.structs.replace(refused, error="\x1b[2J", message="\x07", place=("a/b\n.py", 1))
    assert cause(TAIL, odd) == r"\x1b[2J in b\n.py: \x07"


def test_what_never_ran() -> None:
    assert cause(TAIL, Lost("hung", "no answer")) == "hung"


def test_a_pair_without_a_plan() -> None:
    case = case_named("refused-table-short-on-consumer")
    workers = observed(TAIL).workers
    bases = {
        worker.name: {s.name: 10**6 * (n + 1) + 10**8 * m for n, s in enumerate(worker.storages)}
        for m, worker in enumerate(case.worker)
    }
    ran = Observed({n: msgspec.structs.replace(workers[n], bases=bases[n], regions=None) for n in bases}, (), SYNTHETIC)
    assert cause(case, ran) == "refusal"


def copy(source: int, target: int, length: int) -> Copy:
    return Copy(Place("P0/kv", source, length), Place("D0/kv", target, length))


def test_which_bytes_come_from_where() -> None:
    everything = Spans([Place("D0/kv", 0, 100)])
    whole = {("D0/kv", "P0/kv", -10): ((10, 8),)}
    assert origins([copy(0, 10, 8)], everything) == whole
    assert origins([copy(4, 14, 4), copy(0, 10, 4), copy(0, 10, 5)], everything) == whole
    assert origins([copy(0, 10, 7)], everything) != whole
    assert origins([copy(1, 10, 8)], everything) != whole
    assert origins([copy(0, 10, 4), copy(5, 15, 3)], everything) == {("D0/kv", "P0/kv", -10): ((10, 4), (15, 3))}
    assert origins([copy(0, 5, 50)], Spans([Place("D0/kv", 10, 8)])) == {("D0/kv", "P0/kv", -5): ((10, 8),)}
