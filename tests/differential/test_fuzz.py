# SPDX-License-Identifier: Apache-2.0
"""The engine of ``kvproof fuzz``: catches every faulty rule, shrinks, and writes what `check` reproduces."""

from collections.abc import Iterator
from pathlib import Path
from time import process_time

import pytest
from random_worlds import covered

from kvproof.checking import check_case
from kvproof.exits import Exit
from kvproof.fuzzing import differ, run
from kvproof.fuzzing.run import case_of, fuzz
from kvproof.fuzzing.shrink import shrink
from kvproof.fuzzing.tags import total_bytes
from kvproof.fuzzing.write import string, write_case
from kvproof.reference.derive import Derived
from kvproof.reference.faults import FAULTS
from kvproof.spec.scope import Covered
from kvproof.spec.validate import load_case
from kvproof.spec.vocabulary import Case


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shrinking ends by itself, on a loaded machine too."""
    monkeypatch.setattr(run, "SHRINK_SECONDS", 120.0)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_is_caught_and_its_case_checks(fault: str, seed: int, tmp_path: Path) -> None:
    started = process_time()
    report = fuzz(120, seed, fault, tmp_path)
    assert process_time() - started < 10
    [finding] = report.findings
    assert finding.path is not None
    case = load_case(Path(finding.path).read_bytes())
    assert case == finding.case
    assert case.expect.faults == {fault: finding.laws}
    assert check_case(case).status == Exit.OK
    assert sum(len(worker.layers) for worker in case.worker) <= 6


def test_a_run_without_a_fault_finds_nothing_and_sees_much(tmp_path: Path) -> None:
    told: list[int] = []
    report = fuzz(300, 1, None, tmp_path / "out", lambda cases, _: told.append(cases), cases=60)
    assert report.cases == 60
    assert report.findings == ()
    assert told == list(range(1, report.cases + 1))
    assert report.unseen == ()
    assert not (tmp_path / "out").exists(), "a folder is made only for what is written into it"


def test_a_disagreement_is_shrunk_and_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(_case: Case, scope: Covered, _derived: Derived) -> Iterator[str]:
        if any(view.group.kind == "ring" for view in scope.consumer.layers):
            yield "a ring was seen"

    monkeypatch.setitem(differ.CHECKS, "routes", broken)
    report = fuzz(60, 1, None, tmp_path, cases=12)
    [finding] = report.findings
    assert (finding.check, finding.words) == ("routes", "a ring was seen")
    assert [len(worker.layers) for worker in finding.case.worker] == [1, 1]
    assert finding.path is not None
    assert load_case(Path(finding.path).read_bytes()) == finding.case


def test_an_exception_in_a_route_is_a_disagreement(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise IndexError("out of range")

    monkeypatch.setitem(differ.CHECKS, "routes", broken)
    case = case_of(1, 0)
    found = differ.compare(case, covered(case))
    assert found == differ.Disagreement("routes", "IndexError: out of range")


def test_shrinking_ends_at_the_simplest_case_that_fails() -> None:
    for number in range(10):
        small = shrink(case_of(2, number), lambda _case, _covered: True, seconds=60)
        scope = covered(small)
        assert [len(worker.layers) for worker in small.worker] == [1, 1]
        assert total_bytes(scope) <= 8


def test_every_case_is_read_back_as_written() -> None:
    for number in range(100):
        case = case_of(4, number)
        assert load_case(write_case(case, ["a remark", "of\ntwo lines", "\x1b\x7f\udcff"]).encode()) == case


def test_strings_of_all_kinds_are_read_back() -> None:
    import tomllib

    text = 'a "quoted" \\ name\twith\n\x7f\x01 é € 🜁'
    assert tomllib.loads(f"key = {string(text)}") == {"key": text}
