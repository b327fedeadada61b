# SPDX-License-Identifier: Apache-2.0
"""``kvproof upstream tests`` over records made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from captured_records import Raw, changed, ended, ids, packed, record, region_pull
from commands import kvproof

from kvproof.upstream.own_tests import run as tests_run
from kvproof.upstream.own_tests.explained import Explained, Explanation
from kvproof.upstream.own_tests.report import report
from kvproof.upstream.targets import environment, fetch, target

LATE = changed(region_pull(), "transfers", 0, "remote_ids", to=[21, 22, 23, 121, 122, 123])
WHY = Explained(explained=(Explanation(id="late", tests=("*",), laws=("alignment",), because="So it is."),))


@pytest.fixture(autouse=True)
def no_real_target(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = target.Target("vllm 0.33.0", Path("python"))
    monkeypatch.setattr(fetch, "fetch_tests", lambda _version: tmp_path)
    monkeypatch.setattr(target, "release_target", lambda _version: made)
    monkeypatch.setattr(environment, "environment", lambda: Path("python"))


def saw(monkeypatch: pytest.MonkeyPatch, *raws: Raw, explained: Explained | None = None) -> None:
    found = report("vllm 0.33.0", [one for raw in raws for one in (record(raw), ended())], explained or Explained())
    monkeypatch.setattr(tests_run, "run_upstream_tests", lambda *_: found)


def test_totals_and_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    saw(monkeypatch, packed(), ids(answer=None), changed(region_pull(), "engine", "dcp_size", to=2))
    ran = kvproof("upstream", "tests")
    assert ran.status == 0
    assert "3 tests: 1 lawful, 2 not-covered" in ran.lines
    assert "       1 context parallelism" in ran.lines
    assert (
        "  test_x: 1 lawful, 1 not-covered (the test mocks its answer), 1 not-covered (context parallelism)"
        in ran.lines
    )


def test_an_alarm_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    saw(monkeypatch, packed(), LATE)
    ran = kvproof("upstream", "tests")
    assert ran.status == 1
    assert ran.lines[0].startswith("test_x: corrupt (alignment)")
    assert "tokens 0–63 come from P0 page 21" in ran.lines[1]


def test_an_exception_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    saw(monkeypatch, LATE, explained=WHY)
    ran = kvproof("upstream", "tests", "--all")
    assert ran.status == 0
    assert "       1 late: So it is." in ran.lines
    assert any("tokens 0–63 come from P0 page 21" in line for line in ran.lines)


def test_json(monkeypatch: pytest.MonkeyPatch) -> None:
    saw(monkeypatch, packed(), LATE)
    ran = kvproof("upstream", "tests", "--json")
    assert (ran.status, ran.data["exit"], ran.data["laws"]) == (1, 1, ["alignment"])
    assert ran.data["totals"] == {"lawful": 1, "corrupt": 1}
    assert [test["verdict"] for test in ran.data["tests"]] == ["lawful", "corrupt"]


def test_a_release_or_a_checkout(tmp_path: Path) -> None:
    ran = kvproof("upstream", "tests", "--release", "0.33.0", "--source", tmp_path)
    assert ran.status == 2 and "--release and --source" in ran.err
    assert kvproof("upstream", "tests", "--source", tmp_path).status == 2
