# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from captured_records import MLA, TEST, Raw, changed, ended, hybrid, ids, packed, record, region_pull, trimmed

from kvproof.exits import Exit
from kvproof.failure import Failure
from kvproof.upstream.own_tests import report as tests_report
from kvproof.upstream.own_tests.explained import Explained, Explanation, Told, read_explained
from kvproof.upstream.own_tests.records import read_records


def of(*raws: Raw, explained: Explained | None = None, **params: Any) -> tests_report.TestReport:
    """The report on a test that made these calls."""
    (found,) = tests_report.report("t", [*map(record, raws), ended(**params)], explained or Explained()).tests
    return found


def broken(found: tests_report.TestReport) -> tuple[str, tuple[str, ...]]:
    return found.verdict, found.laws


def test_a_registered_worker_is_lawful_with_its_twin() -> None:
    found = of(packed())
    assert broken(found) == ("lawful", ())
    assert [plan.about for plan in found.plans] == [f"group {n} of a worker and its twin" for n in (0, 1)]
    assert all(plan.real for plan in found.plans)


def test_a_region_that_truncates_a_ring_is_corrupt() -> None:
    raw = changed(packed(), "rows", 2, to=[1000, 32, 0, 64, 3])
    verdict, laws = broken(of(raw))
    assert verdict == "corrupt" and "coverage" in laws and "folding" in laws


def test_ids_of_another_block_are_corrupt() -> None:
    raw = changed(packed(), "own", 0, "source_ids", to=[1, 2, 0, 5, 4, 3])
    assert broken(of(raw)) == ("corrupt", ("alignment",))


def test_a_region_inside_another_of_the_group_is_wasteful() -> None:
    raw = packed()
    raw["rows"].append([1000, 32, 0, 64, 3])
    raw["engine"]["region_bytes"] = [32, 32, 48, 32]
    raw["engine"]["region_groups"] = [0, 0, 1, 1]
    raw["own"][1] |= {"source_ids": [8, 11], "target_ids": [6, 9]}
    assert broken(of(raw)) == ("wasteful", ())


def test_a_region_that_all_groups_share_is_theirs() -> None:
    raw = packed()
    raw["rows"] = [[1000, 64, 0, 64, 3], [1000, 48, 0, 64, 3]]
    raw["engine"] |= {"region_bytes": [64, 48], "region_groups": [-1, 1]}
    raw["own"][0] |= {"source_ids": [2, 1, 0], "target_ids": [0, 1, 2]}
    raw["own"][1] |= {"source_ids": [2, 5], "target_ids": [0, 3]}
    assert broken(of(raw)) == ("wasteful", ())  # the ring's own region is inside the shared one


def test_layers_that_share_their_cache_are_one() -> None:
    raw = packed()
    raw["engine"]["groups"][0]["layers"] = ["a.0", "a.1", "a.2"]
    raw["layers"].append({**raw["layers"][0], "name": "a.2"})
    assert broken(of(raw)) == ("lawful", ())
    raw["layers"][-1]["address"] += 16
    assert "(W10)" in of(raw).plans[0].words


def test_pages_in_pieces_are_not_covered() -> None:
    raw = changed(packed(), "layers", 0, "dense", to=False)
    assert of(raw).reason == "pages that are no one run of bytes"


def test_memory_that_cannot_be_is_a_hazard_where_it_is_the_tests_own() -> None:
    raw = changed(packed(), "layers", 2, "stride", to=40)
    found = of(raw)
    assert found.verdict == "hazard" and found.laws == (tests_report.ILL_FORMED,) and found.alarm
    assert "(W3)" in found.plans[0].words


def test_ids_without_memory() -> None:
    found = of(ids())
    assert found.verdict == "lawful" and not found.plans[0].real
    assert of(ids(answer=[1, 11, 12, 13, 22])).verdict == "corrupt"
    assert of(ids(answer=[1, 11, 12, 13])).laws == ("coverage",)
    assert "descriptor-ids" in of(ids(answer=[1, 11, 12, 13, 33])).laws


def test_ids_of_states_stand_behind_those_of_attention() -> None:
    engine = {
        "regions": 2, "has_mamba": True, "group_types": ["FullAttentionSpec", "MambaSpec"], "ssm_regions": [0],
        "conv_parts": 1,
    }  # fmt: skip
    given = {"block_ids": [[3, 5], [1]], "dst_num_blocks": 10, "block_size_ratio": None,
             "physical_blocks_per_logical": 2}  # fmt: skip
    right = [3, 5, 13, 15, 21, 26]
    assert broken(of(ids(engine=engine, given=given, answer=right))) == ("lawful", ())
    one_stride_for_all = [3, 5, 13, 15, 21, 31]
    assert of(ids(engine=engine, given=given, answer=one_stride_for_all)).verdict == "corrupt"


def test_an_answer_that_the_test_mocks_is_not_covered() -> None:
    found = of(ids(answer=None))
    assert (found.verdict, found.reason) == ("not-covered", "the test mocks its answer")


def test_a_function_of_other_arguments_is_not_covered() -> None:
    raw = ids()
    del raw["given"]["dst_num_blocks"]
    assert of(raw).reason == "a function of other arguments: there is no 'dst_num_blocks'"


def test_what_is_left_of_a_prompt_is_paired_by_position() -> None:
    decode, prefill = [[6, 7], [9]], [[0, 1, 2, 3], [4, 5, 8]]
    suffix = [[[6, 7], [9]], [[2, 3], [8]]]
    assert broken(of(trimmed(decode, prefill, suffix, (1, 1)))) == ("lawful", ())
    assert "alignment" in of(trimmed(decode, prefill, [[[6, 7], [9]], [[0, 1], [8]]], (1, 1))).laws
    assert "alignment" in of(trimmed(decode, prefill, [[[6, 7], [9]], [[2, 3], [4]]], (1, 1))).laws


def test_unequal_blocks_are_paired_from_the_front() -> None:
    decode, prefill = [[0, 1, 2], [9]], [[0, 1, 2, 3], [8]]
    assert broken(of(trimmed(decode, prefill, [[[0, 1, 2], [9]], [[0, 1, 2], [8]]], (1, 2)))) == ("lawful", ())
    assert broken(of(trimmed(decode, prefill, [[[0, 1, 2], [9]], [[1, 2, 3], [8]]], (1, 2)))) == (
        "corrupt",
        ("alignment",),
    )


def test_what_a_text_says_of_the_cache_is_heeded() -> None:
    told = Explained(told=(Told(tests=("*",), pages=4, cached_pages=2),))
    raw = trimmed([[6, 7], [9]], [[0, 1, 2, 3], [8]], [[[6, 7], [9]], [[0, 1], [8]]], (2, 4))
    assert broken(of(raw)) == ("lawful", ())
    assert broken(of(raw, explained=told)) == ("corrupt", ("alignment",))


def test_pages_of_two_lengths() -> None:
    raw: Raw = {
        "event": "mapped",
        "engine": {"group_types": ["FullAttentionSpec", "MambaSpec"]},
        "given": {"local_block_ids": [[1, 2], [7]], "remote_block_ids": [[30, 31, 32], [4]], "block_size_ratio": 2},
        "answer": [[[2, 3, 4], [7]], [[30, 31, 32], [4]]],
    }
    assert broken(of(raw)) == ("lawful", ())
    assert "alignment" in of(changed(raw, "answer", 0, 0, to=[3, 4, 5])).laws


def test_blocks_written_out_as_pages() -> None:
    spec = {"layers": ["a"], "host": False, "blocks": None, "spec": MLA}
    raw: Raw = {
        "event": "expanded",
        "engine": {"groups": [spec, spec]},
        "given": {"block_ids": [[0, 2], [3]], "ratio": 2},
        "answer": [[0, 1, 4, 5], [6, 7]],
    }
    assert broken(of(raw)) == ("lawful", ())
    assert "coverage" in of(changed(raw, "answer", 0, to=[0, 1, 3, 4])).laws


def rows_of_regions() -> Raw:
    return {
        "event": "rows",
        "engine": {"region_bytes": [16, 16], "region_strides": [16, 24], "region_pages": [2, 3]},
        "given": {"base_addresses": [100, 1000], "block_size_ratio": 1},
        "answer": [[100, 16, 0, 16, 2], [1000, 16, 0, 24, 3]],
    }


def test_rows_of_regions() -> None:
    raw = rows_of_regions()
    assert broken(of(raw)) == ("lawful", ())
    assert of(changed(raw, "answer", 1, to=[1000, 16, 0, 16, 3])).verdict == "corrupt"
    assert of(changed(raw, "answer", 0, to=[100, 16, 0, 16, 3])).verdict == "corrupt"


def test_a_region_mapped_read() -> None:
    found = of(region_pull())
    assert broken(found) == ("lawful", ())
    assert found.in_part and "one of 4 ranks" in found.plans[0].notes[0]


def test_the_padded_tail_is_seen() -> None:
    late = changed(region_pull(), "transfers", 0, "remote_ids", to=[21, 22, 23, 121, 122, 123])
    assert broken(of(late)) == ("corrupt", ("alignment",))


def test_a_padding_page_must_be_zeroed_in_its_own_region() -> None:
    blocks = {"local_blocks": [[30, 31, 32, 33], [40, 41, 42, 43]]}
    group = changed(region_pull(**blocks), "engine", "pages_per_block", to=2)
    group["request"] |= {
        "local_blocks": [[15, 16], [20, 21]],
        "remote_blocks": [[10, 11]],
        "zeroed_pages": [[33], [43]],
    }
    group["engine"] |= {"region_pages": [100, 100]}
    assert broken(of(group)) == ("lawful", ())
    assert broken(of(changed(group, "request", "zeroed_pages", to=[[33], []]))) == ("hazard", ("zeroing",))
    assert of(changed(group, "request", "zeroed_pages", to=[[33], [44]])).verdict == "corrupt"


def test_cached_blocks_stand_in_front_of_the_listed() -> None:
    raw = region_pull(local_blocks=[[31, 32], [40, 41, 42]], cached_blocks=[0, 1, 0])
    raw["transfers"][0] |= {"local_ids": [31, 32, 140, 141, 142], "remote_ids": [21, 22, 120, 121, 122]}
    assert broken(of(raw)) == ("lawful", ())
    raw["transfers"][0]["remote_ids"] = [20, 21, 120, 121, 122]
    assert broken(of(raw)) == ("corrupt", ("alignment",))


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (("engine", "dcp_size"), 2, "context parallelism"),
        (("remote", "dcp_size"), 8, "context parallelism"),
        (("engine", "use_mla"), False, "tensor parallelism of heads"),
        (("engine", "tp_size"), 2, "tensor parallelism of heads"),
        (("event",), "write", "a transfer that the producer posts"),
        (("remote", "kernel_tokens"), 32, "pages of unequal length without memory"),
        (("transfers", 0, "local_ids"), None, "the test mocks the ids of its transfer"),
    ],
)
def test_what_a_request_cannot_be_said_of(path: Sequence[Any], value: Any, reason: str) -> None:
    found = of(changed(region_pull(), *path, to=value))
    assert (found.verdict, found.reason) == ("not-covered", reason)


def test_a_peer_of_two_ranks_is_judged_rank_by_rank() -> None:
    found = of(*hybrid())
    assert broken(found) == ("lawful", ())
    assert [plan.about for plan in found.plans] == [f"a request that is read, rank {n} of 2" for n in (0, 1)]
    assert not found.in_part


@pytest.mark.parametrize(
    ("path", "value", "law"),
    [
        (("transfers", 0, "remote_ids", 0), 3, "alignment"),  # another attention page
        (("transfers", 1, "remote_ids", 2), 22, "alignment"),  # another block's state
        (("transfers", 1, "local_ids", 2), 17, "coverage"),  # into another block's state
        (("transfers", 1, "local_rows", 3), [10_000 + 32, 16, 0, 128, 4], "coverage"),  # the other rank's half
        (("transfers", 0, "remote_rows", 4), [500_000 + 40, 16, 0, 64, 6], "alignment"),  # within the peer's state
    ],
)
def test_states_of_ranks_must_land_in_their_shares(path: Sequence[Any], value: Any, law: str) -> None:
    raws = hybrid()
    raws[2] = changed(raws[2], *path, to=value)
    found = of(*raws)
    assert found.verdict == "corrupt" and law in found.laws


def test_zeroes_of_the_completion_count() -> None:
    raws = hybrid()
    assert broken(of(*raws[:3])) == ("hazard", ("zeroing",))
    raws[3]["zeroes"] = [[10_000 + 6 * 64, 128]]
    assert "zeroing" in of(*raws).laws and of(*raws).verdict == "corrupt"


def test_a_prompt_that_the_test_has_in_mind_is_judged_as_well() -> None:
    told = Explained(told=(Told(tests=("*",), tokens_param="num_tokens", less=1),))
    found = of(*hybrid(), explained=told, num_tokens=10)
    assert broken(found) == ("lawful", ())
    assert "a request that is read, of 9 tokens, rank 0 of 2" in [plan.about for plan in found.plans]
    short = of(*hybrid(), explained=told, num_tokens=4)
    assert short.verdict == "hazard" and {plan.verdict for plan in short.plans} == {"lawful", "hazard"}


def test_unequal_pages_are_cut_alike() -> None:
    """Pages of 4 tokens are read from a peer with pages of 2."""
    raws = hybrid()
    raws[1]["peer"] |= {"block_size": 2, "block_lens": [32], "block_strides": [32], "num_blocks": 12}
    raws[1]["peer"]["physical_blocks_per_logical_kv_block"] = 2
    for posted in raws[2]["transfers"]:
        posted["local_rows"] = [[10_000, 32, 0, 32, 16], *posted["local_rows"][1:]]
        posted["remote_rows"] = [[500_000, 32, 0, 32, 12], *posted["remote_rows"][1:]]
        posted["local_ids"] = [one + 8 for one in posted["local_ids"][-4:]]
        posted["remote_ids"] = [one + 6 for one in posted["remote_ids"][-4:]]
    first = raws[2]["transfers"][0]
    first["local_ids"] = [4, 5, 6, 7, 12, 13, *first["local_ids"]]
    first["remote_ids"] = [8, 9, 4, 5, 2, 3, *first["remote_ids"]]
    assert broken(of(*raws)) == ("lawful", ())
    first["remote_ids"][:2] = [9, 8]
    assert broken(of(*raws)) == ("corrupt", ("alignment",))


def test_longer_pages_of_a_peer_are_cut_as_well() -> None:
    """Pages of 4 tokens are read from a peer with pages of 8, which lists them in halves."""
    raws = hybrid()
    raws[1]["peer"] |= {"block_size": 8, "block_lens": [128], "block_strides": [128], "num_blocks": 3}
    raws[2]["request"]["remote_blocks"] = [[2, 1], [0]]
    for posted in raws[2]["transfers"]:
        posted["remote_rows"] = [posted["remote_rows"][0], *([*row[:3], 128, 3] for row in posted["remote_rows"][1:])]
        posted["remote_ids"] = [6, 9, 12, 15]
    first = raws[2]["transfers"][0]
    first["local_ids"] = [2, 3, 6, 7, *first["local_ids"][-4:]]
    first["remote_ids"] = [4, 5, 2, 3, *first["remote_ids"]]
    assert broken(of(*raws[:3])) == ("lawful", ())
    first["remote_ids"][:2] = [5, 4]
    assert broken(of(*raws[:3])) == ("corrupt", ("alignment",))


def test_a_peer_is_what_it_said_first() -> None:
    raws = hybrid()
    rewritten = changed(raws[1], "peer", "kv_caches_base_addr", to=[600_000])
    assert broken(of(*raws[:2], rewritten, *raws[2:])) == ("lawful", ())
    assert of(raws[0], rewritten, *raws[2:]).verdict == "corrupt"


def test_zeroes_are_those_of_the_same_worker() -> None:
    raws = hybrid()
    others = {"event": "finished", "worker": 1, "zeroes": [[10_000 + 6 * 64, 128]]}
    assert broken(of(*raws[:3], others, raws[3])) == ("lawful", ())


def test_states_longer_than_the_peers_pages_are_a_misfit_and_attention_is_judged() -> None:
    raws = hybrid()
    raws[1]["peer"] |= {"block_lens": [40], "block_strides": [40]}
    raws[2]["transfers"][0]["remote_rows"][0] = [500_000, 64, 0, 40, 6]
    found = of(*raws)
    assert tests_report.ILL_FORMED in found.laws
    assert found.plans[0].words == "s: states of 48 bytes stand 40 apart on the peer"


def test_states_that_do_not_divide_are_left_out_by_name() -> None:
    raws = hybrid()
    spec = raws[0]["engine"]["groups"][1]["spec"]
    spec |= {"shapes": [[5, 1], [1, 1, 3]], "item_bytes": [1, 1]}
    found = of(*raws)
    assert found.verdict == "lawful" and found.in_part
    assert found.plans[0].notes == ("group 1: states that do not divide by the ranks",)
    spec |= {"shapes": [[6, 1], [2, 1, 4]]}
    assert of(*raws).plans[0].notes == ("group 1: states of other sizes on the peer",)


def test_a_refusal_is_no_verdict() -> None:
    raw: Raw = {"event": "peer", "worker": 0, "error": "RuntimeError: rows differ"}
    found = of(raw)
    assert (found.verdict, found.plans[0].words) == ("declined", "RuntimeError: rows differ")
    assert broken(of(packed(), raw)) == ("lawful", ())


def test_stages_of_a_pipeline_are_left_out_by_name() -> None:
    raws = [changed(packed(), "engine", "pp_size", to=2), {"event": "peer", "worker": 0}]
    found = of(*raws)
    assert found.verdict == "lawful" and found.in_part
    assert found.plans[-1].reason == "pipeline parallelism"


def test_a_request_that_posts_nothing_is_what_was_planned_for_it() -> None:
    raw = region_pull() | {"transfers": [], "inner": [{"test": TEST, **ids(answer=[1, 11, 12, 13, 22])}]}
    assert of(raw).verdict == "corrupt"


def test_a_test_that_plans_nothing_is_counted() -> None:
    found = tests_report.report("t", [ended(), ended()], Explained())
    assert found.reasons() == {tests_report.NO_PLAN: 2}
    assert found.status() == Exit.UNKNOWN


def test_a_test_that_fails_by_itself_is_not_judged() -> None:
    found = tests_report.report("t", [record(ids()), ended("failed"), record(ids()), ended()], Explained())
    assert [test.verdict for test in found.tests] == ["not-covered", "lawful"]
    assert found.tests[0].reason == "the test itself ends as failed here"
    assert found.status() == Exit.UNKNOWN
    unmarked = record({"event": "outcome", "outcome": "failed", "unmarked": True})
    assert tests_report.report("t", [unmarked, record(ids()), ended()], Explained()).status() == Exit.OK


def test_only_the_laws_of_an_explanation_are_excused() -> None:
    why = Explanation(id="why", tests=("*::test_x",), laws=("alignment",), because="so")
    late = changed(region_pull(), "transfers", 0, "remote_ids", to=[21, 22, 23, 121, 122, 123])
    found = of(late, explained=Explained(explained=(why,)))
    assert found.explained == ("why",) and not found.alarm
    lost = changed(late, "transfers", 0, "local_ids", to=[30, 31, 32, 140, 141, 143])
    assert of(lost, explained=Explained(explained=(why,))).alarm


def test_an_explanation_of_one_plan_excuses_no_other() -> None:
    laws = ("coverage", "confinement", "alignment")
    why = Explained(
        explained=(Explanation(id="why", tests=("*",), laws=laws, plans=("descriptor ids*",), because="so"),)
    )
    wrong = ids(answer=[2, 11, 12, 13, 23])
    assert of(wrong, explained=why).explained == ("why",)
    late = changed(region_pull(), "transfers", 0, "remote_ids", to=[21, 22, 23, 121, 122, 123])
    both = of(wrong, late, explained=why)
    assert both.alarm and not both.explained


def test_the_status_follows_alarms_and_faults() -> None:
    wrong = [record(ids(answer=[1, 11, 12, 13])), ended()]
    assert tests_report.report("t", [record(ids()), ended()], Explained()).status() == Exit.OK
    assert tests_report.report("t", wrong, Explained()).status() == Exit.BROKEN
    faulty = tests_report.report("t", [record(ids(plugin="KeyError()")), ended()], Explained())
    assert faulty.status() == Exit.FAULT and "KeyError()" in faulty.faults[0]


def test_every_explanation_is_told_at_length() -> None:
    page = (Path(__file__).parents[3] / "docs" / "findings" / "upstream-tests.md").read_text(encoding="utf-8")
    for one in read_explained().explained:
        assert f"`{one.id}`" in page


def test_a_line_that_is_no_record_is_named(tmp_path: Path) -> None:
    path = tmp_path / "captured.jsonl"
    deep = '{"event": "ids", "test": "a", "answer": ' + 10_000 * "["
    for bad in ('{"event": "outc', "{}", deep):
        path.write_text('{"event": "outcome", "test": "a"}\n' + bad, encoding="utf-8")
        with pytest.raises(Failure, match=r"captured\.jsonl, line 2: no record"):
            list(read_records(tmp_path, "captured.jsonl"))


def test_a_file_of_records_that_is_none_any_more(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("/etc/passwd")
    for name in ("fifo", "link", "gone"):
        with pytest.raises(Failure, match=f"captured doing cannot be read: they named '{name}'"):
            list(read_records(tmp_path, name))


@pytest.mark.parametrize(
    "given",
    [
        {"block_ids": 3, "dst_num_blocks": 8, "physical_blocks_per_logical": 1},
        {"block_ids": [[1]], "dst_num_blocks": "8", "physical_blocks_per_logical": 1},
        {"block_ids": [[1]], "dst_num_blocks": 8, "physical_blocks_per_logical": 0},
        {"block_ids": [[None]], "dst_num_blocks": 8, "physical_blocks_per_logical": 1},
    ],
)
def test_a_record_with_arguments_of_other_kinds_is_a_fault_of_ours(given: dict[str, Any]) -> None:
    lines = [record(changed(ids(), "given", to=given)), ended(), record(packed()), ended()]
    found = tests_report.report("vllm", lines, Explained())
    assert [test.verdict for test in found.tests] == ["not-covered", "lawful"]
    assert len(found.faults) == 1 and f"{TEST}: its records cannot be read: " in found.faults[0]
    assert found.status() == Exit.FAULT


def test_more_pages_than_can_be_written_out_are_not_covered() -> None:
    pages = {"block_size_ratio": 10**12, "local_block_ids": [[1]], "remote_block_ids": [[1]]}
    for many in (
        changed(rows_of_regions(), "engine", "region_pages", to=[10**12, 10**12]),
        changed(rows_of_regions(), "answer", 0, 4, to=10**12),
        {"event": "mapped", "engine": {}, "given": pages, "answer": [[[1]], [[1]]]},
    ):
        assert of(many).reason == "more pages than are written out"
