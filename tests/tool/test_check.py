# SPDX-License-Identifier: Apache-2.0
from pathlib import Path
from shutil import copytree

import pytest
from commands import PADDED_TAIL, REGRESSIONS, edited, kvproof
from syrupy.assertion import SnapshotAssertion

from kvproof import checking
from kvproof.spec.judge.spans import BudgetExceeded


def test_builtin_cases_are_as_they_should_be() -> None:
    ran = kvproof("check", "--json")
    assert ran.status == 0
    names = {entry["case"] for entry in ran.data["cases"]}
    assert names == {path.stem for path in REGRESSIONS.glob("*.toml")}
    assert ran.data["verdict"] == "passed"
    assert all(entry["problems"] == [] for entry in ran.data["cases"])


def test_words_of_the_padded_tail_fault(snapshot: SnapshotAssertion) -> None:
    ran = kvproof("check", "--fault", "suffix-selection", PADDED_TAIL)
    assert ran.status == 1
    assert ran.out == snapshot


def test_first_line_says_which_tokens_hold_what() -> None:
    first = kvproof("check", "--fault", "suffix-selection", PADDED_TAIL).lines[0]
    assert "D0, layers.0.attn, page 30: tokens 0–63" in first
    assert "P0 page 21, which holds tokens 64–127" in first


def test_json_of_a_fault() -> None:
    ran = kvproof("check", "--json", "--fault", "suffix-selection", PADDED_TAIL)
    assert ran.status == 1
    data = ran.data
    assert (data["format"], data["command"], data["verdict"], data["exit"]) == (1, "check", "failed", 1)
    assert data["laws"] == ["alignment"]
    [entry] = data["cases"]
    assert (entry["verdict"], entry["laws"], entry["expected"]) == ("corrupt", ["alignment"], ["alignment"])
    [finding] = entry["findings"]
    assert finding["words"] == entry["words"]
    assert finding["witness"] == {
        "worker": "D0", "storage": "host", "byte": 1920, "bytes": 64, "layer": "layers.0.attn", "page": 30,
        "tokens": [0, 64],
    }  # fmt: skip
    assert entry["corrupt"] == [
        {"storage": "D0/host", "offset": 1920, "bytes": 192},
        {"storage": "D0/index", "offset": 5120, "bytes": 384},
    ]


def test_lawful_under_a_fault_is_exit_0() -> None:
    assert kvproof("check", "--fault", "fold-by-base", PADDED_TAIL).status == 0


def test_wasteful_under_a_fault_is_exit_1() -> None:
    ran = kvproof("check", "--fault", "row-fold-by-base", REGRESSIONS / "v41-aliased-groups-transfer.toml", "--json")
    [entry] = ran.data["cases"]
    assert (ran.status, entry["verdict"], entry["laws"]) == (1, "wasteful", ["economy"])


MISSES = {
    "verdict": ('verdict = "lawful"', 'verdict = "corrupt"', "expect.verdict: corrupt expected, found lawful"),
    "reason": ('verdict = "lawful"', 'verdict = "lawful"\nreason = "no"', "expect.reason: 'no' expected"),
    "pages": ("D0 = [40, 41, 42]\n\n", "D0 = [40, 41, 43]\n\n", "[40, 41, 43] expected, found [40, 41, 42]"),
    "zeroed": ("D0 = []", "D0 = [33]", "[33] expected, found []"),
    "regions": ('["host", 0, 64, 64, 100]', '["host", 0, 64, 64, 99]', "expect.regions.D0"),
    "ids": ("140, 141, 142", "140, 141, 143", "expect.ids.D0"),
    "ratio": ('"D0.host" = [1, 1]', '"D0.host" = [2, 1]', "D0.host: 2 expected, found 1"),
    "faults": ('["alignment"]', '["coverage"]', "expect.faults.suffix-selection: coverage expected, found alignment"),
    "faults refused": ('["alignment"]', '"refused"', "refused expected, found alignment"),
    "faults lawful": ("\nfold-by-base = []", '\nfold-by-base = ["folding"]', "folding expected, found no law broken"),
}


@pytest.mark.parametrize("field", MISSES)
def test_missed_expectation_is_exit_1(tmp_path: Path, field: str) -> None:
    before, after, words = MISSES[field]
    ran = kvproof("check", edited(tmp_path, (before, after)))
    assert ran.status == 1
    assert "FAIL" in ran.out
    assert words in ran.out


def test_expected_refusal_passes_and_an_unexpected_one_does_not(tmp_path: Path) -> None:
    refused = REGRESSIONS / "refused-layer-absent.toml"
    assert kvproof("check", refused).status == 0
    ran = kvproof("check", edited(tmp_path, ('verdict = "refused"', ""), source=refused))
    assert ran.status == 1
    assert "absent on the producer" in ran.out


def test_not_covered_is_exit_3_unless_expected(tmp_path: Path) -> None:
    lawful = 'verdict = "lawful"'
    cached = ("[30, 31, 32], cached_tokens = 0", "[30, 31, 32], cached_tokens = 1")
    expect = PADDED_TAIL.read_text(encoding="utf-8").split("[expect]")[1]
    ran = kvproof("check", edited(tmp_path, cached, (expect, "")))
    assert ran.status == 3
    assert "not-covered" in ran.out
    assert kvproof("check", edited(tmp_path, cached, (expect, '\nverdict = "not-covered"\n'))).status == 0
    assert kvproof("check", edited(tmp_path, cached, (expect, f"\n{lawful}\n"))).status == 1


def test_exhausted_budget_is_exit_3(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object) -> None:
        raise BudgetExceeded("more than 1 overlap")

    monkeypatch.setattr(checking, "judge", exhausted)
    ran = kvproof("check", PADDED_TAIL)
    assert ran.status == 3
    assert "unknown: more than 1 overlap" in ran.out


def test_routes_that_differ_are_exit_5(monkeypatch: pytest.MonkeyPatch) -> None:
    from kvproof.gpu_impl import tables
    from kvproof.spec.plan import Plan

    monkeypatch.setattr(tables, "plan", lambda case: Plan((), ()))
    ran = kvproof("check", PADDED_TAIL)
    assert ran.status == 5
    assert "routes differ: number of copies: the reference has 6, gpu_impl has 0" in ran.out


def test_folders_are_searched_and_a_file_is_taken_once(tmp_path: Path) -> None:
    copytree(REGRESSIONS, tmp_path / "deep" / "er")
    count = len(list(REGRESSIONS.glob("*.toml")))
    ran = kvproof("check", tmp_path, tmp_path / "deep" / "er" / PADDED_TAIL.name, "--json")
    assert (ran.status, len(ran.data["cases"])) == (0, count)


def test_case_from_standard_input() -> None:
    ran = kvproof("check", "-", stdin=PADDED_TAIL.read_bytes())
    assert ran.status == 0
    assert ran.lines[0].startswith("ok    hisparse-padded-tail: lawful")


def test_rule_without_a_request_is_judged_by_its_tables() -> None:
    ran = kvproof("check", "--fault", "row-fold-by-base", REGRESSIONS / "v41-aliased-groups.toml")
    assert ran.status == 1
    assert "wasteful (economy) under row-fold-by-base (no [request]: only the laws about tables apply)" in ran.out


def test_says_what_is_not_proven() -> None:
    assert "Taken on trust" in kvproof("check", PADDED_TAIL).out
