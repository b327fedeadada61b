# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest
from commands import kvproof

from kvproof.fuzzing import run as fuzzing
from kvproof.fuzzing.differ import Disagreement
from kvproof.reference.faults.registry import FAULTS
from kvproof.spec.judge.verdict import Judgement


def test_no_disagreement_in_a_second(tmp_path: Path) -> None:
    ran = kvproof("fuzz", "--seconds", "1", "--seed", "1", "--out", tmp_path, "--json")
    assert ran.status == 0
    assert (ran.data["verdict"], ran.data["findings"], ran.data["seed"]) == ("passed", [], 1)
    assert ran.data["cases"] >= 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_is_found_and_its_case_reproduces(tmp_path: Path, fault: str) -> None:
    ran = kvproof("fuzz", "--seconds", "120", "--seed", "1", "--fault", fault, "--out", tmp_path, "--json")
    assert ran.status == 1
    [finding] = ran.data["findings"]
    assert finding["laws"]
    assert kvproof("check", finding["file"]).status == 0
    again = kvproof("check", "--fault", fault, finding["file"], "--json")
    assert (again.status, again.data["laws"]) == (1, sorted(finding["laws"]))


def test_disagreement_is_exit_5_and_leaves_a_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzzing, "compare", lambda *_: Disagreement("routes", "they differ\nin two lines"))
    ran = kvproof("fuzz", "--seconds", "1", "--out", tmp_path / "new")
    assert ran.status == 5
    assert ran.lines[0] == "routes: they differ"
    [path] = (tmp_path / "new").iterdir()
    assert str(path) in ran.out
    assert kvproof("check", path).status == 0


def test_nothing_found_with_a_fault_is_exit_3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzzing, "judge_fault", lambda *_: Judgement("refused"))
    ran = kvproof("fuzz", "--seconds", "0.2", "--fault", "fold-by-base")
    assert ran.status == 3
    assert "no case on which fold-by-base goes wrong" in ran.out


def test_folder_that_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    ran = kvproof("fuzz", "--seconds", "1", "--out", path)
    assert (ran.status, ran.err) == (2, f"kvproof: --out: {path} is no folder\n")


def test_case_that_cannot_be_written_leaves_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    ran = kvproof("fuzz", "--seconds", "60", "--seed", "1", "--fault", "fold-by-base", "--out", tmp_path)
    assert ran.status == 1
    assert "fold-by-base goes wrong" in ran.out
    assert ran.err.endswith("cannot be written: No space left on device\n")
