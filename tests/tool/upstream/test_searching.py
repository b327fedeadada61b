# SPDX-License-Identifier: Apache-2.0
"""``kvproof upstream --fuzz``, over targets that never ran."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
from commands import kvproof
from stand_ins import StandIn, know, stand_in

from kvproof.upstream.fuzzing.report import search_status

WORDS = ["upstream", "--release", "0.33.0", "--fuzz", "3", "--seed", "1"]


@pytest.fixture(autouse=True)
def no_real_target(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in(monkeypatch, {})
    know(monkeypatch)
    monkeypatch.chdir(tmp_path)


def test_nothing_found_is_exit_0(tmp_path: Path) -> None:
    ran = kvproof(*WORDS)
    assert ran.status == 0
    assert "no trouble; " in ran.out
    assert list(tmp_path.iterdir()) == []
    assert StandIn.closed == ["0.33.0"]


def test_what_is_found_is_shrunk_and_shows_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in(monkeypatch, {"0.33.0": "suffix-selection"})
    report = tmp_path / "report.xml"
    ran = kvproof(*WORDS, "--out", tmp_path / "found", "--junit", report)
    assert ran.status == 1
    assert ran.lines[0].startswith("suffix-selection: D0, ")
    assert ran.lines[1].startswith("    corrupt (alignment")
    assert "    launch: P: --block-size 128" in ran.lines
    [again] = [line.split("again: kvproof ")[1] for line in ran.lines if "again:" in line][:1]
    assert "--release 0.33.0 --connector nixl-pull --nixl fake" in again
    assert again.split()[-1].startswith(str(tmp_path / "found"))
    shown = kvproof(*again.split(), "--json")
    assert (shown.status, shown.data["rows"][0]["verdict"]) == (1, "corrupt")
    [suite] = ElementTree.parse(report).getroot()
    assert int(suite.get("failures", "0")) >= 1


def test_json_of_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, {"0.33.0": "suffix-selection"})
    data = kvproof(*WORDS, "--json").data
    assert (data["command"], data["action"], data["exit"], data["seed"]) == ("upstream", "fuzz", 1, 1)
    first = data["findings"][0]
    assert (first["target"], first["verdict"], first["cause"]) == ("0.33.0", "corrupt", "suffix-selection")
    assert first["reached"]["tag"] == "worker-level"
    assert Path(first["file"]).is_file()
    [share] = data["shares"]
    assert share["target"] == "0.33.0"
    assert sum(share["verdicts"].values()) == share["cases"] == data["cases"]


@pytest.mark.parametrize(("habit", "status"), [("is not driven", 3), ("breaks the probe", 70), ("refuses", 1)])
def test_targets_that_run_nothing(monkeypatch: pytest.MonkeyPatch, habit: str, status: int) -> None:
    stand_in(monkeypatch, {"0.33.0": habit})
    assert kvproof(*WORDS).status == status


WASTE = [([], 0, 0), (["wasteful"], 0, 1), (["wasteful", "hazard"], 1, 1)]


@pytest.mark.parametrize(("verdicts", "status", "strictly"), WASTE)
def test_waste_alone_is_not_broken(verdicts: list[str], status: int, strictly: int) -> None:
    findings = [SimpleNamespace(key=SimpleNamespace(verdict=verdict)) for verdict in verdicts]
    report: Any = SimpleNamespace(shares=[SimpleNamespace(verdicts={"lawful": 3}, ran=3)], findings=findings)
    assert search_status(report, strict=False) == status
    assert search_status(report, strict=True) == strictly


@pytest.mark.parametrize(("habit", "status", "ends"), [("lawful", 0, "000"), ("is not driven", 3, "010")])
def test_a_search_that_ran_nothing_is_no_pass_in_a_report(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, habit: str, status: int, ends: str
) -> None:
    stand_in(monkeypatch, {"0.33.0": habit})
    assert kvproof(*WORDS, "--junit", tmp_path / "report.xml").status == status
    [suite] = ElementTree.parse(tmp_path / "report.xml").getroot()
    assert "".join(suite.get(name, "") for name in ("failures", "errors", "skipped")) == ends


@pytest.mark.parametrize("words", [[], ["--strict"]])
def test_waste_counts_in_a_report_where_it_counts_at_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str]
) -> None:
    stand_in(monkeypatch, {"0.33.0": "row-fold-by-base"})
    ran = kvproof(*WORDS, *words, "--json", "--junit", tmp_path / "report.xml")
    verdicts = [finding["verdict"] for finding in ran.data["findings"]]
    assert "wasteful" in verdicts and ran.data["strict"] is bool(words)
    [suite] = ElementTree.parse(tmp_path / "report.xml").getroot()
    assert suite.get("failures") == str(len([one for one in verdicts if words or one != "wasteful"]))


def test_folder_that_cannot_be_written_is_told_before_the_search(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran = kvproof(*WORDS, "--out", tmp_path / "file")
    assert (ran.status, ran.err) == (2, f"kvproof: --out: {tmp_path / 'file'} is no folder\n")
    assert StandIn.opened == []
