# SPDX-License-Identifier: Apache-2.0
"""The command line of the stand, over targets that never ran."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from commands import REGRESSIONS, edited, kvproof
from stand_ins import StandIn, know, stand_in

from kvproof.upstream.targets import releases

TAIL = "hisparse-padded-tail"
ONE_GROUP = "hisparse-padded-tail-one-group"


@pytest.fixture(autouse=True)
def no_real_target(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, {})
    know(monkeypatch)


def test_lawful_is_a_line_in_the_matrix_and_exit_0(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = kvproof("upstream", "--release", "0.33.0", TAIL)
    assert ran.status == 0
    assert ran.lines[:3] == ["", "case                  0.33.0", "hisparse-padded-tail  lawful"]
    assert "1 case on 1 target, nixl-pull, fake NIXL: 1 lawful" in ran.lines


def test_first_line_says_which_tokens_hold_what(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, {"0.33.0": "suffix-selection"})
    ran = kvproof("upstream", "--release", "0.33.0", ONE_GROUP)
    assert ran.status == 1
    assert ran.lines[0].startswith(f"{ONE_GROUP}: D0, layers.0.attn, page 31: tokens 0–63 come from P0 page 21, which")
    assert ran.lines[1:8] == [
        "    corrupt (alignment) on 0.33.0, nothing known of it",
        "    worker-level: the kernel page is a stub's",
        "    launch: P: --block-size 128",
        "    first byte: main of D0, byte 1984",
        "    layers.0.attn and 1 more: pages 21, 50, 51 for 20, 21, 50",
        "    just what the rule suffix-selection does (docs/bugs.md)",
        f"    again: kvproof upstream --release 0.33.0 --connector nixl-pull --nixl fake {ONE_GROUP}",
    ]
    assert f"{ONE_GROUP}  corrupt !" in ran.out
    assert "1 corrupt; 1 wrong of which nothing is known" in ran.out


def test_releases_that_do_the_same_are_one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, {"0.32.0": "suffix-selection", "0.33.0": "suffix-selection"})
    words = [word for version in ("0.31.0", "0.32.0", "0.33.0") for word in ("--release", version)]
    ran = kvproof("upstream", *words, ONE_GROUP)
    assert ran.out.count(f"{ONE_GROUP}: ") == 1
    assert "corrupt (alignment) on 0.32.0, 0.33.0" in ran.out
    assert f"{ONE_GROUP}  lawful  corrupt !  corrupt !" in ran.out


def test_wasteful_passes_unless_strict(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, {"0.33.0": "row-fold-by-base"})
    words = ["upstream", "--release", "0.33.0", "v41-aliased-groups-transfer"]
    ran = kvproof(*words)
    assert ran.status == 0
    assert "wasteful (economy); bytes moved ÷ useful: D0.ring 3/2 on 0.33.0" in ran.out
    assert "v41-aliased-groups-transfer  wasteful 3/2" in ran.out
    assert kvproof(*words, "--strict").status == 1


REFUSALS = {
    "right": ("refuses", "refused-layer-absent", 0, "refused rightly, as layer layers.1.attn", "refused"),
    "needless": (
        "refuses",
        TAIL,
        1,
        "refused needlessly, and names no missing capability: ValueError: no such thing",
        "needless !",
    ),
    "needless, but named": ("refuses politely", TAIL, 0, "refused needlessly: ValueError: this is not supported", ""),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusal_with_the_targets_own_message_and_line(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    habit, case, status, words, cell = REFUSALS[name]
    stand_in(monkeypatch, {"0.33.0": habit})
    ran = kvproof("upstream", "--release", "0.33.0", case)
    assert ran.status == status
    assert f"{case}: {words}" in ran.lines[0]
    assert "(vllm/worker.py:7, transfer)" in ran.lines[0]
    assert f"{case}  {cell or 'needless'}" in ran.lines
    [row] = kvproof("upstream", "--release", "0.33.0", case, "--json").data["rows"]
    assert row["needless"] == (name != "right")
    assert row["told"]["place"] == ["vllm/worker.py", 7]


@pytest.mark.parametrize(("habit", "words", "status"), [("hangs", "hung", 1), ("dies", "crashed", 1)])
def test_target_without_an_answer(monkeypatch: pytest.MonkeyPatch, habit: str, words: str, status: int) -> None:
    stand_in(monkeypatch, {"0.32.0": habit})
    ran = kvproof("upstream", "--release", "0.32.0", "--release", "0.33.0", TAIL)
    assert ran.status == status
    assert f"{TAIL}  {words}" in ran.out
    assert "lawful" in ran.out, "the next target is run all the same"


def test_fault_of_the_probe_is_exit_70(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, {"0.33.0": "breaks the probe"})
    ran = kvproof("upstream", "--release", "0.33.0", TAIL)
    assert ran.status == 70
    assert ran.lines[0] == f"{TAIL}: the probe failed: KeyError: 'x'"


def test_not_covered_is_exit_3_where_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, {"0.33.0": "is not driven"})
    ran = kvproof("upstream", "--release", "0.33.0", TAIL)
    assert ran.status == 3
    assert ran.lines[0] == f"{TAIL}: this release has no rings"
    assert f"    not covered: rings: 1 row ({TAIL})" in ran.lines


def test_case_that_expects_not_to_be_covered_passes() -> None:
    ran = kvproof("upstream", "--release", "0.33.0", "not-covered-tensor-parallel")
    assert ran.status == 0
    assert "1 not-covered" in ran.out


def test_all_builtin_cases_by_default() -> None:
    ran = kvproof("upstream", "--release", "0.33.0", "--json")
    assert {row["case"] for row in ran.data["rows"]} == {path.stem for path in REGRESSIONS.glob("*.toml")}
    assert sum(entry["rows"] for entry in ran.data["not_covered"]) == sum(
        row["verdict"] == "not-covered" for row in ran.data["rows"]
    )


def test_pinned_releases_by_default_and_all_by_name() -> None:
    rows = kvproof("upstream", TAIL, "--json").data["rows"]
    assert [row["target"] for row in rows] == list(releases.PINNED)
    rows = kvproof("upstream", TAIL, "--release", "all", "--release", "0.33.0", "--json").data["rows"]
    assert [row["target"] for row in rows] == list(releases.SUPPORTED)


def test_targets_one_after_the_other_and_closed() -> None:
    kvproof("upstream", "--release", "0.32.0", "--release", "0.33.0", TAIL, ONE_GROUP, "--nixl", "real")
    assert StandIn.opened == ["0.32.0 nixl-pull real", "0.33.0 nixl-pull real"]
    assert StandIn.closed == ["0.32.0", "0.33.0"]


def test_interrupt_closes_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(StandIn, "run", interrupted)
    ran = kvproof("upstream", "--release", "0.33.0", TAIL)
    assert (ran.status, ran.err) == (130, "kvproof: interrupted\n")
    assert StandIn.closed == ["0.33.0"]


def test_json_of_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, {"0.33.0": "suffix-selection"})
    data = kvproof("upstream", "--release", "0.33.0", ONE_GROUP, "--json").data
    assert (data["format"], data["command"], data["action"], data["verdict"]) == (1, "upstream", "run", "failed")
    assert (data["exit"], data["laws"]) == (1, ["alignment"])
    assert (data["connector"], data["nixl"], data["strict"]) == ("nixl-pull", "fake", False)
    [row] = data["rows"]
    assert (row["target"], row["case"], row["verdict"], row["laws"]) == ("0.33.0", ONE_GROUP, "corrupt", ["alignment"])
    assert (row["outcome"], row["exit"], row["expected"], row["problems"]) == ("failed", 1, None, [])
    assert row["words"].startswith("D0, layers.0.attn, page 31")
    assert row["findings"][0]["witness"]["byte"] == 1984
    assert row["reached"] == {
        "tag": "worker-level", "words": ["the kernel page is a stub's"], "flags": ["P: --block-size 128"],
    }  # fmt: skip
    assert row["pages"][0]["moved"] == [[21, 31], [50, 6], [51, 77]]
    assert row["pages"][0]["lawful"] == [[20, 31], [21, 6], [50, 77]]
    assert row["regions"]["P0"][0]["storage"] == "main"
    assert row["rules"] == ["suffix-selection"]


def test_the_command_to_see_it_again_works(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = edited(tmp_path, name="a case's own.toml")
    for words in (["--source", str(tmp_path / "my tree"), path], ["--release", "0.33.0", TAIL]):
        [row] = kvproof("upstream", *words, "--json").data["rows"]
        import shlex

        _, *again = shlex.split(row["again"])
        [same] = kvproof(*again, "--json").data["rows"]
        assert (same["again"], same["case"], same["target"]) == (row["again"], row["case"], row["target"])


def test_report_has_a_line_for_each_target_and_case(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in(monkeypatch, {"0.32.0": "suffix-selection"})
    report = tmp_path / "report.xml"
    words = ["--release", "0.32.0", "--release", "0.33.0", ONE_GROUP, "not-covered-tensor-parallel"]
    assert kvproof("upstream", *words, "--junit", report).status == 1
    [suite] = ElementTree.parse(report).getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("4", "1", "2")
    assert suite[0].get("name") == f"0.32.0 {ONE_GROUP}"
    assert "tokens 0–63 come from P0 page 21" in suite[0][0].get("message", "")
    assert "--block-size 128" in (suite[0][0].text or "")


BAD = {
    "no release at all": (
        ["--release", "newest"],
        "--release: 'newest' is no version of vllm, such as 0.33.0; supported are 0.25.0",
    ),
    "release and source": (["--release", "0.33.0", "--source", "."], "--release and --source: give one of them"),
    "source and python": (["--python", "p", "--source", "."], "--source and --python: give one of them"),
    "no such case": (["no-such-case"], "no-such-case: cannot be read: No such file"),
    "nearly a case": (["mla-padded-tails"], "nor a built-in case of that name; did you mean mla-padded-tail?"),
    "no such connector": (["--connector", "lmcache"], "--connector"),
    "no such nixl": (["--nixl", "none"], "--nixl"),
    "negative seconds": (["--fuzz", "-1"], "--fuzz: '-1' is not a number of seconds above 0"),
    "negative deadline": (["--deadline", "-1"], "--deadline: '-1' is not a number of seconds above 0"),
    "cases and fuzz": (["--fuzz", "1", TAIL], "--fuzz makes its own cases"),
    "out without fuzz": (["--out", "x"], "--out: only --fuzz writes cases"),
    "seed without number": (["--fuzz", "1", "--seed", "x"], "--seed: 'x' is not a whole number"),
    "unknown option": (["--relese", "0.33.0"], "--relese"),
    "report in no folder": (["--junit", "/no/such/report.xml"], "--junit: /no/such/report.xml cannot be written"),
    "bisect without a case": (["bisect"], "requires an argument"),
    "bisect of no case": (["bisect", "no-such-case"], "no-such-case: cannot be read: No such file"),
    "compare with one side": (["compare", "0.33.0"], "requires an argument"),
    "compare with no release": (["compare", "0.32.0", "newest"], "HEAD: 'newest' is neither a release (0.25.0"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_and_exit_2(name: str) -> None:
    words, told = BAD[name]
    ran = kvproof("upstream", *words)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.count("\n") == 1
    assert told in ran.err
    again = kvproof("upstream", *words, "--json")
    assert (again.data["verdict"], again.data["command"]) == ("bad-input", "upstream")


@pytest.mark.parametrize("option", ["--source", "--python"])
def test_paths_that_hold_no_target(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, option: str) -> None:
    monkeypatch.undo()
    file = tmp_path / "file"
    file.write_text("")
    for path in (tmp_path / "missing", file, tmp_path):
        ran = kvproof("upstream", option, path, TAIL)
        assert (ran.status, ran.err.count("\n")) == (2, 1)
        assert str(path) in ran.err


def test_bad_case_is_told_before_anything_is_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bad = edited(tmp_path, ("tokens = 160", "tokens = -1"))
    ran = kvproof("upstream", "--release", "0.33.0", TAIL, bad)
    assert ran.status == 2
    assert ran.err.startswith(f"{bad}: ")
    assert StandIn.opened == []


def test_a_version_that_nobody_tried_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, {})
    monkeypatch.setattr(StandIn, "versions", {"0.33.0": "0.34.0.dev3+g1234", "0.32.0": "0.32.0+cpu"})
    ran = kvproof("upstream", "--release", "0.33.0", "--release", "0.32.0", TAIL)
    told = [line for line in ran.lines if "not written for" in line]
    assert told == ["    0.33.0 says it is 0.34.0.dev3+g1234, which the probes were not written for"]
