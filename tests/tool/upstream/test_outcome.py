# SPDX-License-Identifier: Apache-2.0
"""From an answer to a verdict: connectors that follow the reference's rules or faulty ones, and answers by hand."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from random_worlds import examples, worlds
from targets import SYNTHETIC, observed

from kvproof.exits import Exit
from kvproof.reference.faults import FAULTS
from kvproof.reference.rules import Refusal
from kvproof.spec.descriptors import DescriptorList
from kvproof.spec.place import Place
from kvproof.spec.plan import Copy, Plan
from kvproof.spec.scope import Covered, assess
from kvproof.spec.validate import load_case
from kvproof.spec.vocabulary import Case
from kvproof.upstream.judging import outcome as module
from kvproof.upstream.judging.outcome import Outcome, SeenRow, Told, outcome_of, status_of
from kvproof.upstream.judging.pages import page_words, whole_pages
from kvproof.upstream.protocol import Answer, Crashed, NotDriven, Observed, ProbeFailed, Reached, RefusedBy, SeenZero
from kvproof.upstream.running.lost import Lost, LostKind

FOLDER = Path(__file__).parents[3] / "cases" / "regressions"
NOWHERE = Path("/nonexistent")

NUMBERED_OTHERWISE = {("ring-over-split-blocks", "fold-by-base"), ("ring-over-split-blocks", "row-fold-by-base")}
"""The region that is wrong for the ring holds its page all the same, if ids count two descriptors a block.

What its target moved shows that they do not; but that is the plan's breach, not the region's.
"""


def case_named(name: str) -> Case:
    return load_case((FOLDER / f"{name}.toml").read_bytes())


CASES = [load_case(file.read_bytes()) for file in sorted(FOLDER.glob("*.toml"))]
COVERED = [case for case in CASES if isinstance(assess(case), Covered)]
TAIL, REFUSED, OTHER = (
    case_named(name) for name in ("hisparse-padded-tail", "refused-kinds-differ", "not-covered-page-bytes-differ")
)
TABLES = case_named("v41-aliased-groups")


def judged(case: Case, answer: Answer | Lost) -> Outcome:
    return outcome_of(case, answer, NOWHERE)


def under(case: Case, fault: str) -> Outcome:
    return judged(case, observed(case, FAULTS[fault].rules))


@pytest.mark.parametrize("case", COVERED, ids=lambda case: case.name)
def test_a_connector_that_does_as_the_reference_is_lawful(case: Case) -> None:
    found = judged(case, observed(case))
    assert (found.verdict, found.laws, found.words, found.others) == (case.expect.verdict, (), "", ())
    assert status_of(found) == Exit.OK
    assert all(one.moved == one.lawful for one in found.pages)
    for name, pages in case.expect.pages.items():
        if any(pages.values()):
            [one] = [one for one in found.pages if one.layer == name]
            assert one.moved == tuple(zip(*(pages[worker.name] for worker in case.worker), strict=True))


@pytest.mark.parametrize("case", COVERED, ids=lambda case: case.name)
def test_a_connector_that_follows_a_faulty_rule_breaks_the_laws_that_the_case_lists(case: Case) -> None:
    for fault, expected in case.expect.faults.items():
        if expected == "refused":
            with pytest.raises(Refusal):
                observed(case, FAULTS[fault].rules)
            continue
        wanted = set(expected) - ({"folding"} if (case.name, fault) in NUMBERED_OTHERWISE else set())
        found = under(case, fault)
        assert set(found.laws) == wanted, fault
        assert bool(found.words) == bool(wanted)
        ratios = case.expect.ratio.get(fault, {})
        for group, (moved, useful) in ratios.items():
            assert found.ratios[group][0] * useful == found.ratios[group][1] * moved


def test_there_are_cases() -> None:
    assert len(COVERED) > 30
    assert sum(len(case.expect.faults) for case in COVERED) > 100


@examples(60)
@given(worlds())
def test_no_false_alarm_on_any_world(case: Case) -> None:
    if isinstance(assess(case), Covered):
        found = judged(case, observed(case))
        assert (found.verdict, found.words) == ("lawful", "")


def test_the_padded_tail_in_words_and_pages() -> None:
    found = under(TAIL, "suffix-selection")
    assert (found.verdict, found.laws, status_of(found)) == ("corrupt", ("alignment",), Exit.BROKEN)
    assert found.words == (
        "D0, layers.0.attn, page 30: tokens 0–63 come from P0 page 21, which holds tokens 64–127; "
        "and 5 more pages, 2 layers in all"
    )
    assert found.witness is not None
    assert (found.witness.worker, found.witness.storage, found.witness.byte) == ("D0", "host", 1920)
    assert page_words(found.pages) == ["layers.0.attn and 1 more: pages 21, 22, 23 for 20, 21, 22"]
    assert (found.reached, found.judgement is not None, found.lists is not None) == (SYNTHETIC, True, True)


def test_pages_besides_those_that_are_needed() -> None:
    found = under(case_named("hisparse-both-padded"), "suffix-selection")
    assert page_words(found.pages) == ["layers.0.attn: page 7 besides", "layers.0.indexer: page 17 besides"]


def test_pages_that_came_in_part_are_no_other_pages() -> None:
    found = under(case_named("ring-over-window-small"), "fold-by-base")
    assert [one.layer for one in found.pages if one.moved != one.lawful] == ["layers.0.compressor"]
    assert page_words(found.pages) == []


def test_a_page_from_between_two_pages_is_no_page() -> None:
    """Page 3 of the first window layer; P0's page 5, that page from byte 1 on, and page 6."""
    case = case_named("v41-flash-window-and-ring")
    scope = assess(case)
    assert isinstance(scope, Covered)
    target = Place("D0/kv", 3 * 38016, 19008)
    for shift, moved in ((0, ((5, 3),)), (1, ()), (38016, ((6, 3),))):
        copy = Copy(Place("P0/kv", 5 * 38016 + shift, 19008), target)
        assert whole_pages(scope, Plan((copy,), ())) == [moved, (), ()]
    # Padding behind the last record need not come, the last byte of the record must.
    for length, moved in ((18688, ((5, 3),)), (18687, ())):
        copy = Copy(Place("P0/kv", 5 * 38016, length), Place("D0/kv", 3 * 38016, length))
        assert whole_pages(scope, Plan((copy,), ())) == [moved, (), ()]


def test_regions_by_offset_for_comparison() -> None:
    found = under(case_named("v41-flash-window-and-ring"), "fold-by-base")
    assert found.regions["D0"] == (
        SeenRow("kv", 0, 19008, 38016, 9, ("swa", "ring")),
        SeenRow("kv", 19008, 19008, 38016, 9, ("swa",)),
    )


def test_economy_is_said_in_bytes_first() -> None:
    found = under(case_named("v41-aliased-groups-transfer"), "row-fold-by-base")
    assert (found.verdict, status_of(found), status_of(found, strict=True)) == ("wasteful", Exit.OK, Exit.BROKEN)
    assert found.words.startswith("D0.ring: 202752 bytes are moved for 135168 useful ones")
    assert found.others[0].startswith("economy: D0.ring: addresses region D0/kv bytes 67584–135167")


def test_a_case_without_a_request_is_judged_by_its_regions() -> None:
    assert under(TABLES, "row-fold-by-base").verdict == "wasteful"
    bare = observed(TABLES)
    workers = {name: msgspec.structs.replace(seen, regions=None) for name, seen in bare.workers.items()}
    found = judged(TABLES, msgspec.structs.replace(bare, workers=workers))
    assert (found.verdict, status_of(found)) == ("not-covered", Exit.UNKNOWN)
    assert found.reason == "the target shows no regions, and without a request it moves nothing"


def test_nothing_moved_is_no_pass() -> None:
    found = judged(TAIL, msgspec.structs.replace(observed(TAIL), transfers=(), zeroes=()))
    assert (found.verdict, found.laws) == ("corrupt", ("coverage",))


def refused(error: str = "ValueError", message: str = "no such thing") -> RefusedBy:
    return RefusedBy("register", error, message, ("vllm/worker.py", 12), SYNTHETIC)


def test_refused_rightly() -> None:
    found = judged(REFUSED, refused())
    assert (found.verdict, found.needless, found.laws, status_of(found)) == ("refused", False, (), Exit.OK)
    assert found.reason == "ValueError: no such thing (vllm/worker.py:12, register)"
    assert found.words.startswith("rightly, as layer ")
    assert found.words.endswith(found.reason)
    assert found.told == Told("register", "ValueError", "no such thing", ("vllm/worker.py", 12))
    assert found.reached == SYNTHETIC


@pytest.mark.parametrize(
    ("error", "message", "named"),
    [
        ("NotImplementedError", "", True),
        ("RuntimeError", "heterogeneous block sizes are not supported yet", True),
        ("ValueError", "MLA only supports one head", True),
        ("ValueError", "CSA-linear NIXL requires exactly one PLE cache owner", True),
        ("ValueError", "this path is not implemented", True),
        ("RuntimeError", "Packed KV block rows differ between P and D", True),
        ("AssertionError", "KV cache view cannot be partitioned", True),
        ("AssertionError", "", False),
        ("AssertionError", "assert len(decode) <= len(prefill)", False),
        ("ValueError", "the requirement failed", False),
    ],
)
def test_refused_needlessly(error: str, message: str, named: bool) -> None:
    found = judged(TAIL, refused(error, message))
    assert (found.verdict, found.needless) == ("refused", True)
    assert (found.laws, status_of(found)) == (((), Exit.OK) if named else (("refusal",), Exit.BROKEN))
    assert found.words.startswith("needlessly: " if named else "needlessly, and names no missing capability: ")


def test_a_pair_without_a_plan_that_ran_all_the_same() -> None:
    """Bytes 0 to 15 of the producer's kv went to the consumer's."""
    answer = observed(TAIL)
    worker = {name: msgspec.structs.replace(seen, regions=None) for name, seen in answer.workers.items()}
    answer = msgspec.structs.replace(answer, workers=worker)
    case = msgspec.structs.replace(TAIL, worker=(TAIL.worker[0], short_table(TAIL).worker[1]))
    found = judged(case, answer)
    assert (found.verdict, found.laws, status_of(found)) == ("hazard", ("refusal",), Exit.BROKEN)
    assert "table too short" in found.words
    assert found.words.endswith("it should have been refused, but the target moved 576 bytes")
    still = judged(case, msgspec.structs.replace(answer, transfers=(), zeroes=()))
    assert (still.verdict, still.laws) == ("hazard", ("refusal",))
    assert still.words.endswith("the target went ahead, and moved nothing")


UNSEEN_CASES = ["refused-opaque-against-parts", "refused-unit-held-by-nobody"]


@pytest.mark.parametrize("name", UNSEEN_CASES)
def test_what_no_target_can_see_it_cannot_refuse(name: str) -> None:
    case = case_named(name)
    found = judged(case, bare(case))
    assert (found.verdict, found.laws) == ("not-covered", ())
    assert found.words.endswith("; but the target was not shown what differs")
    assert judged(case, refused()).verdict == "refused"


def short_table(case: Case) -> Case:
    """The consumer's host table without its last block."""
    consumer = case.worker[1]
    table = msgspec.structs.replace(consumer.tables["host"], blocks=(30, 31))
    worker = msgspec.structs.replace(consumer, tables=consumer.tables | {"host": table})
    return msgspec.structs.replace(case, worker=(case.worker[0], worker))


def test_without_a_request_nobody_sees_a_refusal() -> None:
    workers = tuple(msgspec.structs.replace(worker, tables={}) for worker in REFUSED.worker)
    case = msgspec.structs.replace(REFUSED, request=None, worker=workers)
    answer = msgspec.structs.replace(bare(case), transfers=())
    found = judged(case, answer)
    assert found.verdict == "not-covered"
    assert "without a request nobody sees whether it is refused" in found.words


def bare(case: Case) -> Observed:
    """All storages somewhere, nothing else."""
    workers = {}
    for number, worker in enumerate(case.worker):
        address, bases = 2**32 * (number + 1), {}
        for storage in worker.storages:
            bases[storage.name] = address
            address += storage.bytes
        workers[worker.name] = msgspec.structs.replace(observed(TAIL).workers["P0"], bases=bases, regions=None)
    return Observed(workers, (), SYNTHETIC)


@pytest.mark.parametrize(
    "answer",
    [
        bare(OTHER), refused(), Crashed("read", "IndexError", "", ("a.py", 1)), ProbeFailed("KeyError", "x"),
        NotDriven("too new"), Lost("hung", "no answer in 10 s"),
    ],
    ids=lambda answer: type(answer).__name__,
)  # fmt: skip
def test_what_kvproof_does_not_model_is_not_covered_whatever_the_target_did(answer: Any) -> None:
    found = judged(OTHER, answer)
    assert (found.verdict, status_of(found)) == ("not-covered", Exit.UNKNOWN)
    assert found.reason is not None
    assert "page_bytes differ" in found.reason
    assert (found.told is not None) == isinstance(answer, RefusedBy | Crashed)


def test_not_driven() -> None:
    found = judged(TAIL, NotDriven("0.25.0 knows no host pool", "mixed memory"))
    assert (found.verdict, found.reason, found.missing) == ("not-covered", "0.25.0 knows no host pool", "mixed memory")


def test_crashed() -> None:
    reached = Reached("reachable", (), ("--x",))
    found = judged(TAIL, Crashed("read", "IndexError", "list index\nout of range", ("a.py", 7), reached))
    assert (found.verdict, found.reached, status_of(found)) == ("crashed", reached, Exit.BROKEN)
    assert found.words == "IndexError: list index out of range (a.py:7, read)"


@pytest.mark.parametrize("kind", ["crashed", "hung", "garbage"])
def test_lost(kind: LostKind) -> None:
    found = judged(TAIL, Lost(kind, "it was\nso"))
    assert (found.verdict, found.words, status_of(found)) == (kind, "it was so", Exit.BROKEN)


def test_a_failing_probe_is_our_fault() -> None:
    found = judged(TAIL, ProbeFailed("KeyError", "'x'", "Traceback"))
    assert (found.verdict, status_of(found)) == ("fault", Exit.FAULT)
    assert found.words == "the probe failed: KeyError: 'x'"


def test_what_does_not_fit_the_case_is_garbage() -> None:
    seen = observed(TAIL)
    assert judged(TAIL, msgspec.structs.replace(seen, zeroes=(SeenZero("D0", 1, 1),))).verdict == "garbage"
    assert judged(TAIL, msgspec.structs.replace(seen, workers={})).verdict == "garbage"
    moved = judged(TABLES, msgspec.structs.replace(observed(TABLES), zeroes=(SeenZero("D0", 2**33, 1),)))
    assert moved.verdict == "garbage"


def test_lists_of_an_outcome_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of a case that is not covered: a comparison of two releases looks at them."""
    case = case_named(UNSEEN_CASES[0])
    address = next(iter(bare(case).workers["D0"].bases.values()))
    seen = msgspec.structs.replace(bare(case), zeroes=(SeenZero("D0", address, 1),) * 6)
    assert judged(case, seen).lists is not None
    monkeypatch.setattr(module, "SPANS_LIMIT", 5)
    found = judged(case, seen)
    assert (found.verdict, found.lists) == ("unknown", None)


def test_bytes_moved_without_a_request_are_garbage() -> None:
    seen = observed(TABLES)
    base = seen.workers["D0"].bases["kv"]
    found = judged(TABLES, msgspec.structs.replace(seen, zeroes=(SeenZero("D0", base, 1),)))
    assert (found.verdict, "no [request]" in found.words) == ("garbage", True)


def test_more_than_the_judge_looks_at_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SPANS_LIMIT", 5)
    found = judged(TAIL, observed(TAIL))
    assert (found.verdict, status_of(found)) == ("unknown", Exit.UNKNOWN)


def test_rows_and_ids_beyond_all_measure() -> None:
    """Nothing that a target writes into its lists ends in a traceback."""
    seen = observed(TAIL)
    [first, *rest] = seen.transfers
    for change in (
        {"source_ids": (-1, 2**70, 22)},
        {"target_ids": ()},
        {"source": DescriptorList("DRAM", ((2**64, 2**64, 7, 2**64, 2**64),))},
        {"source": DescriptorList("VRAM", ())},
        {"target": DescriptorList("DRAM", ((0, 0, 0, 0, 2**70),))},
    ):
        found = judged(TAIL, msgspec.structs.replace(seen, transfers=(msgspec.structs.replace(first, **change), *rest)))
        assert found.verdict in ("corrupt", "hazard"), change
        assert found.words


def test_what_a_release_keeps_to_itself_is_noted() -> None:
    seen = observed(TAIL)
    workers = seen.workers | {"P0": msgspec.structs.replace(seen.workers["P0"], not_exposed=("region groups",))}
    found = judged(TAIL, msgspec.structs.replace(seen, workers=workers, notes=("hello",)))
    assert found.notes == ("hello", "P0: region groups is not exposed by this release")


def test_regions_that_begin_nowhere_keep_their_address() -> None:
    seen = observed(TAIL)
    [one, *rest] = seen.workers["D0"].regions or ()
    far = msgspec.structs.replace(one, address=3)
    workers = seen.workers | {"D0": msgspec.structs.replace(seen.workers["D0"], regions=(far, *rest))}
    found = judged(TAIL, msgspec.structs.replace(seen, workers=workers))
    assert found.regions["D0"][0] == SeenRow(None, 3, 64, 64, 100, ("host",))
    assert (found.verdict, found.laws) == ("hazard", ("bounds", "folding"))
