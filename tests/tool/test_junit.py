# SPDX-License-Identifier: Apache-2.0
from pathlib import Path
from xml.etree import ElementTree

from commands import PADDED_TAIL, REGRESSIONS, edited, kvproof

from kvproof.junit import TestCase as Line
from kvproof.junit import write_junit


def test_report_of_a_check(tmp_path: Path) -> None:
    bad = edited(tmp_path, ("tokens = 160", "tokens = 0"))
    missed = edited(tmp_path, ('verdict = "lawful"', 'verdict = "hazard"'), name="missed.toml")
    report = tmp_path / "report.xml"
    assert kvproof("check", PADDED_TAIL, bad, missed, "--junit", report).status == 1
    [suite] = ElementTree.parse(report).getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "1")
    passed, broken, failed = suite
    assert (passed.get("name"), list(passed)) == ("hisparse-padded-tail", [])
    assert broken[0].tag == "error"
    assert "tokens" in broken[0].get("message", "")
    assert failed[0].tag == "failure"
    assert failed[0].get("message") == "expect.verdict: hazard expected, found lawful"


def test_report_of_a_judgement(tmp_path: Path) -> None:
    plan = kvproof("plan", PADDED_TAIL, "--fault", "suffix-selection").out
    report = tmp_path / "report.xml"
    assert kvproof("judge", PADDED_TAIL, "-", "--junit", report, stdin=plan.encode()).status == 1
    [[entry]] = ElementTree.parse(report).getroot()
    assert "tokens 0–63 come from P0 page 21" in entry[0].get("message", "")


def test_report_of_a_fault(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    cases = [REGRESSIONS / "v41-flash-window-and-ring.toml", PADDED_TAIL]
    assert kvproof("check", *cases, "--fault", "fold-by-base", "--junit", report).status == 1
    [suite] = ElementTree.parse(report).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")


def test_report_that_cannot_be_written_leaves_the_answer() -> None:
    ran = kvproof("check", PADDED_TAIL, "--junit", "/dev/full")
    assert ran.status == 2
    assert ran.lines[0].startswith("ok    hisparse-padded-tail")
    assert ran.err == "kvproof: --junit: /dev/full cannot be written: No space left on device\n"
    ran = kvproof("check", PADDED_TAIL, "--fault", "suffix-selection", "--junit", "/dev/full", "--json")
    assert (ran.status, ran.data["exit"]) == (1, 1)


def test_report_is_tried_before_the_work(tmp_path: Path) -> None:
    for name in ("check", "prove"):
        ran = kvproof(name, "--junit", tmp_path / "no" / "report.xml")
        assert (ran.status, ran.out) == (2, "")
    kept = tmp_path / "report.xml"
    kept.write_text("before")
    kvproof("judge", PADDED_TAIL, "missing.json", "--junit", kept)
    kvproof("judge", PADDED_TAIL, "missing.json", "--junit", tmp_path / "new.xml")
    assert (kept.read_text(), (tmp_path / "new.xml").exists()) == ("before", False)


def test_report_holds_any_text(tmp_path: Path) -> None:
    path = tmp_path / "report.xml"
    write_junit(path, "check", [Line("a\x00\x1b<&\ud800", "failure", "\x07", "]]>\ufffe")])
    [[entry]] = ElementTree.parse(path).getroot()
    assert entry.get("name") == "a\\x00\\x1b<&\\ud800"
