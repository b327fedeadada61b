# SPDX-License-Identifier: Apache-2.0
"""The judge's known answers on plans: each law broken by hand, with words, witness, ratio and spans."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from spec_worlds import GONE, built, changed, two_workers

from kvproof.spec.decode import BadInput, decode_plan
from kvproof.spec.judge import expand, plan_laws, runs, spans
from kvproof.spec.judge.judge import judge, judge_plan_file
from kvproof.spec.judge.spans import BudgetExceeded
from kvproof.spec.judge.verdict import Finding, Judgement, Witness, verdict_of
from kvproof.spec.place import Place
from kvproof.spec.plan import Copy, Plan, PlanFile
from kvproof.spec.scope import assess
from kvproof.spec.validate import check_case, load_case
from kvproof.spec.vocabulary import Case

PADDED_TAIL = Path(__file__).parents[2] / "cases" / "regressions" / "hisparse-padded-tail.toml"

# P0 pages 20, 21, 22 to host pages 30, 31, 32 (64 bytes each) and index pages 40, 41, 42 (128 bytes each).
PLAN_FILE = {
    "format": 1,
    "case": "hisparse-padded-tail",
    "copies": [
        {
            "source": ["P0", "main", 20 * 64], "target": ["D0", "host", 30 * 64], "bytes": 64,
            "count": 3, "source_stride": 64, "target_stride": 64,
        },
        {
            "source": ["P0", "index", 20 * 128], "target": ["D0", "index", 40 * 128], "bytes": 128,
            "count": 3, "source_stride": 128, "target_stride": 128,
        },
    ],
    "zeroes": [],
}  # fmt: skip


def padded_tail() -> Case:
    return load_case(PADDED_TAIL.read_bytes())


def judged_file(plan: dict[str, Any]) -> Judgement:
    decoded = decode_plan(json.dumps(plan).encode())
    assert isinstance(decoded, PlanFile)
    return judge_plan_file(padded_tail(), decoded)


def test_the_plan_of_the_padded_tail_is_lawful() -> None:
    answer = judged_file(PLAN_FILE)
    assert answer.verdict == "lawful"
    assert answer.findings == ()
    assert answer.ratios == {"D0.host": (192, 192), "D0.idx": (384, 384)}
    assert (answer.corrupt, answer.contested) == ((), ())
    assert answer.not_applicable == ("folding", "descriptor-ids", "parity")


def test_single_spans_are_as_good_as_runs() -> None:
    single = [
        {"source": ["P0", name, size * (20 + i)], "target": ["D0", goal, size * (first + i)], "bytes": size}
        for name, goal, first, size in (("main", "host", 30, 64), ("index", "index", 40, 128))
        for i in range(3)
    ]
    assert judged_file(PLAN_FILE | {"copies": single}).verdict == "lawful"
    del single[4]
    assert judged_file(PLAN_FILE | {"copies": single}).laws == ("coverage",)


FIELDS = [("source", 2), ("target", 2), ("bytes",), ("count",), ("source_stride",), ("target_stride",)]


@pytest.mark.parametrize("copy", [0, 1])
@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field[0])
@pytest.mark.parametrize("delta", [-64, -1, 1, 64])
def test_no_number_of_the_plan_may_be_another(copy: int, field: tuple[Any, ...], delta: int) -> None:
    plan: dict[str, Any] = deepcopy(PLAN_FILE)
    place: Any = plan["copies"][copy]
    for step in field[:-1]:
        place = place[step]
    place[field[-1]] += delta
    if place[field[-1]] < (1 if field[0] in {"bytes", "count"} else 0):
        with pytest.raises(BadInput):
            judged_file(plan)
        return
    answer = judged_file(plan)
    assert answer.verdict in {"corrupt", "wasteful"}
    assert answer.verdict == "corrupt" or field[0] == "count"


@pytest.mark.parametrize("copy", [0, 1])
@pytest.mark.parametrize("side", ["source", "target"])
def test_no_storage_of_the_plan_may_be_another(copy: int, side: str) -> None:
    plan: dict[str, Any] = deepcopy(PLAN_FILE)
    other = {"main": "index", "host": "index", "index": "main" if side == "source" else "host"}
    plan["copies"][copy][side][1] = other[plan["copies"][copy][side][1]]
    assert judged_file(plan).verdict == "corrupt"


def test_the_last_three_pages_are_the_fault() -> None:
    plan: dict[str, Any] = deepcopy(PLAN_FILE)
    plan["copies"][0]["source"][2] = 21 * 64
    answer = judged_file(plan)
    assert answer.laws == ("alignment",)
    assert answer.corrupt == (Place("D0/host", 30 * 64, 192),)
    [finding] = answer.findings
    assert finding.witness == Witness("D0", "host", 1920, 64, "layers.0.attn", 30, (0, 64))
    assert finding.words == (
        "D0, layers.0.attn, page 30: tokens 0–63 come from P0 page 21, which holds tokens 64–127; "
        "and 2 more pages, 1 layer in all"
    )


@pytest.mark.parametrize("side", ["source", "target"])
def test_an_unknown_storage_is_bad_input(side: str) -> None:
    plan: dict[str, Any] = deepcopy(PLAN_FILE)
    plan["copies"][1][side][1] = "x"
    worker = {"source": "P0", "target": "D0"}[side]
    expected = f"copies[1].{side}: {worker} has no storage 'x'; the case has D0/host, D0/index, P0/index, P0/main"
    with pytest.raises(BadInput) as caught:
        judged_file(plan)
    assert str(caught.value) == expected


def test_an_unknown_storage_of_a_zero_is_bad_input() -> None:
    with pytest.raises(BadInput, match=r"^zeroes\[0\]\.target: D1 has no storage 'host'"):
        judged_file(PLAN_FILE | {"zeroes": [{"target": ["D1", "host", 0], "bytes": 1}]})


def test_a_plan_has_a_limit_of_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    zeroes = [{"target": ["D0", "host", 0], "bytes": 1, "count": 2**40}]
    with pytest.raises(BadInput, match="the plan has 1099511627782 single spans; at most 1000000 are judged"):
        judged_file(PLAN_FILE | {"zeroes": zeroes})
    monkeypatch.setattr(expand, "SPANS_LIMIT", 6)
    assert judged_file(PLAN_FILE).verdict == "lawful"
    monkeypatch.setattr(expand, "SPANS_LIMIT", 5)
    with pytest.raises(BadInput, match="the plan has 6 single spans; at most 5 are judged"):
        judged_file(PLAN_FILE)


def test_permutes_are_not_covered() -> None:
    answer = judged_file(PLAN_FILE | {"permutes": [{"layer": "layers.0.attn"}]})
    assert (answer.verdict, answer.reason) == ("not-covered", "the plan has permutes, which are not modelled")
    assert len(answer.not_applicable) == 12


def test_a_plan_for_a_case_without_request_is_bad_input() -> None:
    case = built(changed(two_workers(), {"request": GONE, "worker.0.tables": GONE, "worker.1.tables": GONE}))
    with pytest.raises(BadInput, match=r"case two has no \[request\]"):
        judge_plan_file(case, PlanFile(1, "two"))


def test_outside_the_model_no_plan_is_looked_at() -> None:
    case = built(changed(two_workers(), {"worker.0.tp": [0, 2]}))
    assert judge_plan_file(case, PlanFile(1, "two")).verdict == "not-covered"
    case = built(changed(two_workers(), {"worker.0.layers.0.name": "z"}))
    answer = judge_plan_file(case, PlanFile(1, "two"))
    assert (answer.verdict, answer.reason) == ("refused", "layer a of D0 is absent on the producer P0")
    assert len(answer.not_applicable) == 12


# The two workers, six tokens: P0's pages 2, 3, 4 go to D0's pages 6, 7, 0; D0's page 1 is past the prompt.
# Rows of 16 bytes: layer a, then layer b. P0's ssm block 3 goes to D0's block 4.
ELSEWHERE = {"worker.1.tables": {"kv": {"blocks": [3, 0]}, "ssm": {"blocks": [4]}}}
FIRST = ("main", 2 * 16, 6 * 16, 32)
LAST = ("main", 4 * 16, 0, 16)
STATE = ("state", 3 * 8, 4 * 8, 8)
PAST = ("main", 16, 16)


def plan_of(*copies: tuple[str, int, int, int], zeroes: tuple[tuple[str, int, int], ...] = (PAST,)) -> Plan:
    return Plan(
        tuple(
            Copy(Place(f"P0/{name}", source, size), Place(f"D0/{name}", to, size)) for name, source, to, size in copies
        ),
        tuple(Place(f"D0/{name}", offset, size) for name, offset, size in zeroes),
    )


def judged(plan: Plan, changes: dict[str, Any] | None = None, tokens: int = 6) -> Judgement:
    case = built(changed(two_workers(tokens), ELSEWHERE | (changes or {})))
    check_case(case)
    return judge(assess(case), plan)


def told(answer: Judgement, law: str) -> Finding:
    """The one finding of that law."""
    [finding] = [finding for finding in answer.findings if finding.law == law]
    assert finding.subject == "plan"
    return finding


def test_the_plan_of_the_two_workers_is_lawful() -> None:
    answer = judged(plan_of(FIRST, LAST, STATE))
    assert (answer.verdict, answer.findings) == ("lawful", ())
    assert answer.ratios == {"D0.kv": (48, 48), "D0.ssm": (8, 8)}


def test_l1_what_is_never_written() -> None:
    answer = judged(plan_of(FIRST, STATE))
    assert (answer.verdict, answer.laws) == ("corrupt", ("coverage",))
    assert answer.corrupt == (Place("D0/main", 0, 16),)
    finding = told(answer, "coverage")
    assert finding.corrupting
    assert finding.witness == Witness("D0", "main", 0, 8, "a", 0, (4, 6), "heads", (0, 2))
    assert finding.words == (
        "D0, a, page 0: tokens 4–5 of part heads, units 0–1 are never written; and 1 more page, 2 layers in all"
    )
    assert answer.ratios == {"D0.kv": (32, 32), "D0.ssm": (8, 8)}


@pytest.mark.parametrize("size", range(1, 16))
def test_l1_to_the_byte(size: int) -> None:
    answer = judged(plan_of(FIRST, ("main", 64, 0, size), STATE))
    assert answer.laws == ("coverage",)
    assert answer.corrupt == (Place("D0/main", size, 16 - size),)


def test_l1_an_empty_plan() -> None:
    answer = judged(plan_of())
    assert answer.laws == ("coverage",)
    assert answer.corrupt == (Place("D0/main", 0, 16), Place("D0/main", 96, 32), Place("D0/state", 32, 8))
    assert answer.ratios == {}


def test_l1_an_incomplete_last_state_need_not_arrive() -> None:
    # Five tokens, states of two: the state of tokens 4 and 5 is incomplete, but b's opaque page holds token 4.
    pairs = {f"worker.{i}.layers.0.tokens_per_state": 2 for i in (0, 1)}
    only_b = ("main", 72, 8, 8)
    assert judged(plan_of(FIRST, only_b, STATE), pairs, tokens=5).verdict == "lawful"
    assert judged(plan_of(FIRST, only_b, STATE), pairs, tokens=6).laws == ("coverage",)
    assert judged(plan_of(FIRST, LAST, STATE), pairs, tokens=5).verdict == "lawful"


def test_l1_a_state_is_required_by_its_last_token() -> None:
    # States of two tokens. A window of four needs tokens 3, 4, 5: the state of 2 and 3 is required, the first is not.
    window: dict[str, Any] = {}
    for i in (0, 1):
        window |= {f"worker.{i}.groups.0.kind": "sliding", f"worker.{i}.groups.0.window_tokens": 4}
        window |= {f"worker.{i}.layers.0.tokens_per_state": 2}
    assert judged(plan_of(("main", 48, 112, 16), LAST, STATE), window).verdict == "lawful"
    answer = judged(plan_of(("main", 56, 120, 8), LAST, STATE), window)
    assert told(answer, "coverage").words == "D0, a, page 7: tokens 2–3 of part heads, units 0–1 are never written"


def test_l1_states_past_the_prompt_need_not_arrive() -> None:
    # Token 4 alone: of a's page 0 the first state of each unit, bytes 0, 1 and 4, 5.
    pieces = [("main", 64, 0, 2), ("main", 68, 4, 2), ("main", 72, 8, 8)]
    assert judged(plan_of(FIRST, *pieces, STATE), tokens=5).verdict == "lawful"
    answer = judged(plan_of(FIRST, *pieces[1:], STATE), tokens=5)
    assert told(answer, "coverage").witness == Witness("D0", "main", 0, 2, "a", 0, (4, 5), "heads", (0, 1))
    assert told(answer, "coverage").words == "D0, a, page 0: token 4 of part heads, unit 0 is never written"


def test_l2_what_comes_from_elsewhere() -> None:
    answer = judged(plan_of(FIRST, ("main", 32, 0, 16), STATE))
    assert (answer.verdict, answer.laws) == ("corrupt", ("alignment",))
    assert answer.corrupt == (Place("D0/main", 0, 16),)
    finding = told(answer, "alignment")
    assert finding.witness == Witness("D0", "main", 0, 8, "a", 0, (4, 6), "heads", (0, 2))
    assert finding.words == (
        "D0, a, page 0: tokens 4–5 of part heads, units 0–1 come from P0 page 2, which holds tokens 0–1; "
        "and 1 more page, 2 layers in all"
    )


def test_l2_the_shift_counts_not_the_start() -> None:
    halves = [("main", 64, 0, 3), ("main", 67, 3, 13)]
    assert judged(plan_of(FIRST, *halves, STATE)).verdict == "lawful"
    assert judged(plan_of(FIRST, halves[0], ("main", 66, 3, 13), STATE)).laws == ("alignment",)


def test_l2_cached_cells_are_to_be_kept() -> None:
    cached = {"worker.1.tables.kv.cached_tokens": 2}
    # Page 6 holds tokens 0 and 1, which D0 has; its block is not cached: it may be written, with the same bytes.
    assert judged(plan_of(FIRST, LAST, STATE), cached).laws == ("economy",)
    answer = judged(plan_of(("main", 48, 112, 16), ("main", 36, 96, 4), LAST, STATE), cached)
    assert answer.laws == ("alignment",)
    assert answer.corrupt == ()
    assert told(answer, "alignment").witness == Witness("D0", "main", 96, 4, "a", 6, (0, 2), "heads", (0, 1))


def test_l2_a_cell_that_nobody_holds_is_not_to_be_touched() -> None:
    # The first block is cached and has left P0's table.
    gone = {"worker.1.tables.kv.cached_tokens": 2, "worker.0.pools.0.null": 0, "worker.0.tables.kv.first": 0}
    short = gone | {"worker.0.tables.kv.blocks": [0, 2], "worker.1.tables.kv.cached_tokens": 4}
    assert judged(plan_of(LAST, STATE), short).verdict == "lawful"
    assert judged(plan_of(("main", 0, 96, 16), LAST, STATE), short).laws == ("alignment", "confinement")


def test_l3_foreign_blocks() -> None:
    answer = judged(plan_of(FIRST, LAST, STATE, ("main", 64, 64, 16)))
    assert (answer.verdict, answer.laws) == ("corrupt", ("confinement",))
    finding = told(answer, "confinement")
    assert finding.witness == Witness("D0", "main", 64, 16)
    assert finding.words == (
        "bytes 64–79 of D0/main are copied to, but are no uncached block's of this request: "
        "D0 page 4 of a, which is no page of this request"
    )
    assert answer.ratios == {"D0.kv": (48, 48), "D0.ssm": (8, 8)}


def test_l3_cached_blocks() -> None:
    answer = judged(plan_of(FIRST, LAST, STATE), {"worker.1.tables.kv.cached_tokens": 4})
    assert answer.laws == ("confinement",)
    assert told(answer, "confinement").witness == Witness("D0", "main", 96, 32)
    assert told(answer, "economy").words == "D0.kv: 48 bytes are moved for 16 useful ones (32 bytes into empty pages)"


def test_l3_a_cached_state() -> None:
    answer = judged(plan_of(FIRST, LAST, STATE), {"worker.1.tables.ssm.cached_tokens": 6})
    assert answer.laws == ("confinement",)
    assert told(answer, "confinement").words.endswith("D0 page 4, which holds the ssm state of block 4")
    assert judged(plan_of(FIRST, LAST), {"worker.1.tables.ssm.cached_tokens": 6}).verdict == "lawful"
    assert judged(plan_of(FIRST, LAST), {"worker.1.tables.ssm.cached_tokens": 5}).laws == ("coverage",)


def test_l3_the_null_block_is_nobody_s() -> None:
    null = {"worker.1.pools.0.null": 1, "worker.1.tables.kv.blocks": [3, 0, 1]}
    assert judged(plan_of(FIRST, LAST, STATE), null).verdict == "lawful"
    assert judged(plan_of(FIRST, LAST, STATE, ("main", 32, 32, 1)), null).laws == ("confinement",)


def test_l3_padding_is_free_in_a_row_and_nowhere_else() -> None:
    short = {f"worker.{i}.layers.2.page_bytes": 7 for i in (0, 1)}
    assert judged(plan_of(FIRST, LAST, STATE), short).verdict == "lawful"
    no_rows = short | {"worker.1.storages.1.bytes": 39}
    answer = judged(plan_of(FIRST, LAST, ("state", 24, 32, 8)), no_rows | {"worker.1.tables.ssm.blocks": [4]})
    assert answer.laws == ("confinement", "bounds")
    answer = judged(plan_of(FIRST, LAST, ("state", 24, 16, 8)), no_rows | {"worker.1.tables.ssm.blocks": [2]})
    assert answer.laws == ("confinement",)
    assert told(answer, "confinement").witness == Witness("D0", "state", 23, 1)


def test_l3_nothing_is_written_on_the_producer() -> None:
    plan = plan_of(FIRST, LAST, STATE)
    answer = judged(Plan((*plan.copies, Copy(Place("D0/main", 0, 1), Place("P0/main", 32, 1))), plan.zeroes))
    assert answer.laws == ("confinement",)


def test_l4_bounds_of_targets_sources_and_zeroes() -> None:
    answer = judged(plan_of(FIRST, LAST, STATE, ("main", 144, 152, 16)))
    assert "bounds" in answer.laws
    finding = told(answer, "bounds")
    assert finding.corrupting
    assert finding.witness == Witness("D0", "main", 152, 16)
    assert finding.words == "bytes 152–167 of D0/main lie outside its 160 bytes"
    answer = judged(plan_of(FIRST, LAST, STATE, ("main", 145, 16, 16)))
    assert answer.laws == ("bounds",)
    assert told(answer, "bounds").words == "bytes 145–160 of P0/main lie outside its 160 bytes"
    assert judged(plan_of(FIRST, LAST, STATE, ("main", 144, 16, 16))).laws == ("economy",)
    answer = judged(plan_of(FIRST, LAST, STATE, zeroes=(PAST, ("main", 159, 2))))
    assert answer.laws == ("confinement", "bounds", "zeroing")


def test_l5_two_values() -> None:
    answer = judged(plan_of(FIRST, LAST, STATE, ("main", 32, 4, 8)))
    assert answer.laws == ("alignment", "single-writer")
    assert answer.contested == answer.corrupt == (Place("D0/main", 4, 8),)
    finding = told(answer, "single-writer")
    assert finding.corrupting
    assert finding.witness == Witness("D0", "main", 4, 4, "a", 0, (4, 6), "heads", (1, 2))
    assert finding.words == (
        "D0, a, page 0: tokens 4–5 of part heads, unit 1 (bytes 4–7 of 8) get two different values; "
        "and 1 more page, 2 layers in all"
    )


def test_l5_one_value_twice_is_only_wasteful() -> None:
    answer = judged(plan_of(FIRST, LAST, STATE, ("main", 68, 4, 8)))
    assert (answer.verdict, answer.laws, answer.contested) == ("wasteful", ("economy",), ())


def test_l5_two_values_beside_the_required_bytes() -> None:
    # Five tokens: of a's page 0 bytes 2, 3 and 6, 7 (token 5) are required by nobody.
    answer = judged(plan_of(FIRST, LAST, STATE, ("main", 32, 2, 2)), tokens=5)
    assert (answer.verdict, answer.contested) == ("wasteful", ())
    answer = judged(plan_of(FIRST, LAST, STATE, ("main", 32, 3, 2)), tokens=5)
    assert answer.laws == ("alignment", "single-writer")
    assert answer.contested == (Place("D0/main", 4, 1),)


def test_l5_l9a_a_copy_and_a_zero() -> None:
    answer = judged(plan_of(FIRST, LAST, STATE, zeroes=(("main", 12, 20),)))
    assert (answer.verdict, answer.laws) == ("corrupt", ("single-writer", "zeroing"))
    assert answer.contested == answer.corrupt == (Place("D0/main", 12, 4),)
    finding = told(answer, "zeroing")
    assert finding.corrupting
    assert finding.witness == Witness("D0", "main", 12, 4, "b", 0, (4, 6))
    assert finding.words == "D0, b, page 0: tokens 4–5 (bytes 4–7 of 8), required, are zeroed"


def test_l9a_a_cached_cell() -> None:
    cached = {"worker.1.tables.kv.cached_tokens": 2}
    pages = [("main", 48, 112, 16), LAST, STATE]
    answer = judged(plan_of(*pages, zeroes=(PAST, ("main", 110, 2))), cached)
    assert (answer.verdict, answer.laws, answer.corrupt) == ("corrupt", ("zeroing",), ())
    assert told(answer, "zeroing").words == "D0, b, page 6: tokens 0–1 (bytes 6–7 of 8), cached, are zeroed"


def test_l9a_a_foreign_byte() -> None:
    answer = judged(plan_of(FIRST, LAST, STATE, zeroes=(("main", 16, 17),)))
    assert (answer.verdict, answer.laws) == ("corrupt", ("confinement", "zeroing"))
    assert told(answer, "zeroing").witness == Witness("D0", "main", 32, 1)
    assert told(answer, "zeroing").words == (
        "bytes 32 of D0/main are zeroed, but are no uncached block's of this request: "
        "D0 page 2 of a, which is no page of this request"
    )


def test_l9b_a_page_past_the_prompt_ends_zero() -> None:
    answer = judged(plan_of(FIRST, LAST, STATE, zeroes=()))
    assert (answer.verdict, answer.laws, answer.corrupt) == ("hazard", ("zeroing",), ())
    finding = told(answer, "zeroing")
    assert not finding.corrupting
    assert finding.witness == Witness("D0", "main", 16, 8)
    assert finding.words == "D0, a, page 1: tokens 6–7 lie past the prompt's 6 tokens, but the page does not end zero"
    for zero, left in ((("main", 17, 15), (16, 1)), (("main", 16, 15), (31, 1)), (("main", 24, 8), (16, 8))):
        answer = judged(plan_of(FIRST, LAST, STATE, zeroes=(zero,)))
        assert (answer.verdict, answer.laws) == ("hazard", ("zeroing",))
        assert told(answer, "zeroing").witness == Witness("D0", "main", *left)


def test_l9b_no_zero_is_owed_where_every_page_holds_a_token() -> None:
    # Seven tokens: page 1 holds token 6, so that it is copied and must not be zeroed.
    last = ("main", 64, 0, 32)
    assert judged(plan_of(FIRST, last, STATE, zeroes=()), tokens=7).verdict == "lawful"
    assert judged(plan_of(FIRST, last, STATE), tokens=7).laws == ("single-writer", "zeroing")
    # Four tokens: the second block holds none.
    assert judged(plan_of(FIRST, STATE, zeroes=()), tokens=4).verdict == "lawful"


def test_l11_moved_twice() -> None:
    answer = judged(plan_of(FIRST, LAST, LAST, STATE))
    assert (answer.verdict, answer.laws) == ("wasteful", ("economy",))
    assert answer.ratios == {"D0.kv": (64, 48), "D0.ssm": (8, 8)}
    finding = told(answer, "economy")
    assert (finding.corrupting, finding.witness) == (False, None)
    assert finding.words == "D0.kv: 64 bytes are moved for 48 useful ones (16 bytes moved twice)"


def test_l11_empty_pages() -> None:
    answer = judged(plan_of(FIRST, ("main", 64, 0, 32), STATE))
    assert answer.laws == ("economy",)
    assert answer.ratios == {"D0.kv": (64, 48), "D0.ssm": (8, 8)}
    assert told(answer, "economy").words == "D0.kv: 64 bytes are moved for 48 useful ones (16 bytes into empty pages)"


def test_l11_both_at_once() -> None:
    answer = judged(plan_of(FIRST, ("main", 64, 0, 32), ("main", 32, 96, 8), STATE))
    assert told(answer, "economy").words == (
        "D0.kv: 72 bytes are moved for 48 useful ones (8 bytes moved twice, 16 bytes into empty pages)"
    )


def test_l11_a_neighbour_in_the_row_is_free_and_elsewhere_it_is_not() -> None:
    # b is of another group. Copying P0's row whole brings D0's block 3 a page of b that nobody asked for.
    other = {"name": "other", "kind": "attention", "pool": "device", "block_tokens": 4, "pages_per_block": 2}
    changes: dict[str, Any] = {"worker.0.tables.kv.blocks": [1], "worker.1.tables.kv.blocks": [3]}
    for index, block in ((0, 0), (1, 1)):
        changes |= {f"worker.{index}.groups.2": other, f"worker.{index}.layers.1.group": "other"}
        changes |= {f"worker.{index}.tables.other": {"blocks": [block]}, f"worker.{index}.layers.1.page_bytes": 7}
    plan = [("main", 32, 96, 8), ("main", 48, 112, 8), ("main", 8, 40, 7), ("main", 24, 56, 7), STATE]
    neighbour = ("main", 40, 104, 7)
    no_rows = changes | {"worker.1.storages.0.bytes": 159}
    for layout in (changes, no_rows):
        assert judged(plan_of(*plan, zeroes=()), layout, tokens=4).verdict == "lawful"
    assert judged(plan_of(*plan, neighbour, zeroes=()), changes, tokens=4).verdict == "lawful"
    answer = judged(plan_of(*plan, neighbour, zeroes=()), no_rows, tokens=4)
    assert answer.laws == ("economy",)
    assert answer.ratios["D0.kv"] == (23, 16)


def test_l11_blocks_before_the_window_are_empty() -> None:
    window = {f"worker.{i}.groups.0.{k}": v for i in (0, 1) for k, v in (("kind", "sliding"), ("window_tokens", 3))}
    # Tokens 6 - 3 + 1 = 4 and 5 are needed: page 0 alone.
    assert judged(plan_of(LAST, STATE), window).verdict == "lawful"
    answer = judged(plan_of(FIRST, LAST, STATE), window)
    assert answer.laws == ("economy",)
    assert answer.ratios["D0.kv"] == (48, 16)


def test_l11_a_state_that_is_not_live_is_empty() -> None:
    slots = {f"worker.{i}.tables.ssm": {"blocks": [3, 4], "live": 1} for i in (0, 1)}
    blocks = {"worker.1.tables.kv.blocks": [1, 2], "worker.1.tables.ssm.blocks": [4, 3]}
    plan = [("main", 32, 16 * 2, 48), ("state", 32, 24, 8)]
    zero = (("main", 80, 16),)
    assert judged(plan_of(*plan, zeroes=zero), slots | blocks).verdict == "lawful"
    answer = judged(plan_of(*plan, ("state", 24, 32, 8), zeroes=zero), slots | blocks)
    assert (answer.laws, answer.ratios["D0.ssm"]) == (("economy",), (16, 8))


def test_economy_is_listed_only_when_alone() -> None:
    answer = judged(plan_of(FIRST, LAST, LAST))
    assert {finding.law for finding in answer.findings} == {"coverage", "economy"}
    assert (answer.verdict, answer.laws) == ("corrupt", ("coverage",))


def test_the_worst_finding_is_the_verdict() -> None:
    economy, hazard = Finding("economy", "plan", ""), Finding("zeroing", "plan", "")
    corrupt = Finding("zeroing", "plan", "", corrupting=True)
    assert verdict_of([]) == "lawful"
    assert verdict_of([economy]) == "wasteful"
    assert verdict_of([hazard, economy]) == verdict_of([economy, hazard]) == "hazard"
    assert verdict_of([economy, hazard, corrupt]) == verdict_of([corrupt, hazard]) == "corrupt"


def test_findings_that_corrupt_come_first_then_by_law() -> None:
    answer = judged(plan_of(("main", 34, 96, 32), ("main", 64, 64, 16), zeroes=()))
    assert [finding.law for finding in answer.findings] == [
        "coverage", "alignment", "confinement", "zeroing",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("module", "name", "limit"),
    [(runs, "RUNS_LIMIT", 6), (spans, "PAIRS_LIMIT", 6), (plan_laws, "PAIRS_LIMIT", 0)],
)
def test_past_its_budget_the_judge_says_so(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, limit: int) -> None:
    # Seven runs: two layers of three pages, and the state; each is touched by one copy, a's page 0 by two.
    plan = plan_of(FIRST, LAST, STATE, ("main", 64, 0, 8))
    monkeypatch.setattr(module, name, limit + (2 if module is spans else 1))
    assert judged(plan).verdict == "wasteful"
    monkeypatch.setattr(module, name, limit)
    with pytest.raises(BudgetExceeded, match=f"more than {limit} "):
        judged(plan)


def test_without_plan_and_tables_only_the_pair_is_judged() -> None:
    answer = judge(assess(built(two_workers())))
    assert answer.verdict == "lawful"
    assert set(answer.not_applicable) == {
        "coverage", "alignment", "confinement", "bounds", "single-writer", "folding", "descriptor-ids", "parity",
        "zeroing", "economy",
    }  # fmt: skip
