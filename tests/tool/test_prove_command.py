# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from commands import kvproof

from kvproof.proofs import run as proofs
from kvproof.proofs.run import EngineResult, Result


def result(verdict: Any, **fields: Any) -> Result:
    return Result(
        id=fields.get("id", "T1"),
        name="pages_are_apart",
        claim="Two pages never share a byte.",
        law="confinement",
        kind="theorem",
        verdict=verdict,
        engines={"z3": EngineResult("unsat", 1200), "cvc5": EngineResult("unsat", 34)},
        reason=fields.get("reason", ""),
        counterexample=fields.get("counterexample", {}),
        words=fields.get("words", ""),
    )


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[Result]:
    """What the proofs answer."""
    given: list[Result] = []

    def prove(*_: object) -> Iterator[Result]:
        yield from given

    monkeypatch.setattr(proofs, "prove", prove)
    return given


STATUSES = {"proved": 0, "refuted": 1, "unknown": 3, "vacuous": 4, "disagreement": 5, "error": 70}


@pytest.mark.parametrize("verdict", STATUSES)
def test_status_of_each_verdict(answers: list[Result], verdict: str) -> None:
    answers += [result("proved"), result(verdict, id="T2", reason="because")]
    ran = kvproof("prove", "--json")
    assert ran.status == STATUSES[verdict]
    assert [each["verdict"] for each in ran.data["obligations"]] == ["proved", verdict]
    assert ran.data["laws"] == ([] if verdict == "proved" else ["confinement"])


def test_lines_of_a_claim(answers: list[Result]) -> None:
    answers.append(result("refuted", reason="z3 found a world", counterexample={"tokens": 160}, words="token 3 moves"))
    ran = kvproof("prove")
    assert ran.lines[:6] == [
        "T1   refuted   pages are apart",
        "     Two pages never share a byte.",
        "     z3 unsat (1,200 units)  cvc5 unsat (34 units)",
        "     z3 found a world",
        "     token 3 moves",
        "     where tokens = 160",
    ]
    assert "1 claim by z3 and cvc5: 1 refuted (1 theorem)" in ran.lines
    assert "Taken on trust" in ran.out


def test_report(answers: list[Result], tmp_path: Path) -> None:
    answers += [result("proved"), result("refuted", reason="because")]
    report = tmp_path / "report.xml"
    kvproof("prove", "--junit", report)
    [suite] = ElementTree.parse(report).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "z3", None)
    ran = kvproof("prove")
    assert ran.status == 2
    assert "pip install 'kvproof[prove]'" in ran.err
    assert ran.err.count("\n") == 1


def test_one_claim_is_proved_by_both_engines(tmp_path: Path) -> None:
    ran = kvproof("prove", "--only", "P01", "--smt2", tmp_path / "queries", "--json")
    assert ran.status == 0
    [proof] = ran.data["obligations"]
    assert (proof["id"], proof["verdict"], list(proof["engines"])) == ("P01", "proved", ["z3", "cvc5"])
    assert all(engine["units"] >= 0 for engine in proof["engines"].values())
    assert list((tmp_path / "queries").glob("*.smt2"))


def test_queries_go_to_no_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    ran = kvproof("prove", "--smt2", path)
    assert ran.status == 2
    assert ran.err == f"kvproof: --smt2: {path} is no folder\n"


@pytest.mark.parametrize("name", ["product keeps order", "Product-keeps_order", "p01"])
def test_claim_by_its_printed_name(name: str) -> None:
    ran = kvproof("prove", "--only", name, "--json")
    assert [each["id"] for each in ran.data["obligations"]] == ["P01"]


def test_one_engine_is_a_weaker_claim() -> None:
    assert "z3 and cvc5 (every claim needs both)" in kvproof("prove", "--only", "P01").out
    for engine, other in (("z3", "cvc5"), ("cvc5", "z3")):
        ran = kvproof("prove", "--only", "P01", "--engine", engine)
        assert f"Taken on trust: {engine} alone (a weaker claim than that of two engines" in ran.out
        assert f"{other}" not in ran.out


def test_queries_that_cannot_be_written_leave_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(proofs, "_dump", full)
    ran = kvproof("prove", "--only", "P01", "--smt2", tmp_path)
    assert (ran.status, ran.lines[0]) == (2, "P01  proved    product keeps order")
    assert ran.err == f"kvproof: --smt2: {tmp_path} cannot be written: No space left on device\n"
