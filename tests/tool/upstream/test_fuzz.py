# SPDX-License-Identifier: Apache-2.0
"""The loop against a target that is not there: the reference, under a faulty rule."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from commands import kvproof
from targets import observed

from kvproof.reference.faults.registry import FAULTS
from kvproof.reference.rules import Refusal
from kvproof.spec.vocabulary import Case
from kvproof.upstream.fuzzing import search as fuzzing
from kvproof.upstream.fuzzing.bench import Key, Tried, key_of
from kvproof.upstream.fuzzing.search import FuzzReport, Run
from kvproof.upstream.judging.outcome import Outcome, OutcomeVerdict, Told, outcome_of
from kvproof.upstream.protocol import Answer, Reach, Reached, RefusedBy


class Reference:
    """A target that follows one faulty rule. ``reach`` says how far each of its worlds is a user's."""

    def __init__(self, fault: str, reach: Callable[[Case], Reach] = lambda case: "worker-level") -> None:
        self.label = f"reference with {fault}"
        self._rules = FAULTS[fault].rules
        self._reach = reach

    def attempt(self, case: Case) -> Tried:
        reached = Reached(self._reach(case))
        answer: Answer
        try:
            answer = msgspec.structs.replace(observed(case, self._rules), reached=reached)
        except Refusal as refusal:
            answer = RefusedBy("transfer", "ValueError", refusal.reason, ("rules.py", 1), reached)
        outcome = outcome_of(case, answer, Path("nothing is written down"))
        return Tried(outcome, key_of(self.label, case, outcome))


class Broken:
    """A target that always ends in the same way."""

    label = "broken"

    def __init__(self, outcome: Outcome) -> None:
        self.asked = 0
        self._outcome = outcome

    def attempt(self, case: Case) -> Tried:
        self.asked += 1
        return Tried(self._outcome, Key(self.label, self._outcome.verdict, (), "always"))


def run(folder: Path, *benches: Reference | Broken, cases: int = 30, seed: int = 1) -> FuzzReport:
    return Run(benches, 100.0, seed, folder, limit=cases).all()


@pytest.mark.parametrize(
    ("fault", "laws"), [("suffix-selection", ("alignment",)), ("fold-by-base", ("coverage", "folding"))]
)
def test_the_known_faults_are_found_made_small_and_written(tmp_path: Path, fault: str, laws: tuple[str, ...]) -> None:
    report = run(tmp_path, Reference(fault))
    [finding] = [found for found in report.findings if found.key.laws == laws]
    assert (finding.key.verdict, finding.key.cause) == ("corrupt", fault)
    assert finding.cases > 1
    # Small: nothing is left but what the fault needs.
    consumer = finding.case.workers("consumer")[0]
    assert len(consumer.layers) <= 2
    assert sum(storage.bytes for storage in consumer.storages) < 500
    assert finding.path is not None
    assert kvproof("check", finding.path).status == 0
    again = kvproof("check", "--fault", fault, finding.path, "--json")
    assert (again.status, again.data["laws"]) == (1, sorted(laws))


def test_a_refusal_that_names_no_limit_is_a_finding(tmp_path: Path) -> None:
    report = run(tmp_path, Reference("suffix-selection"))
    [finding] = [found for found in report.findings if found.key.verdict == "refused"]
    assert finding.key.laws == ("refusal",)
    assert "only #" in finding.key.cause


def test_one_finding_for_each_key_and_one_file(tmp_path: Path) -> None:
    report = run(tmp_path, Reference("suffix-selection"), Reference("fold-by-base"))
    keys = [finding.key for finding in report.findings]
    assert len(set(keys)) == len(keys)
    assert {key.target for key in keys} == {"reference with suffix-selection", "reference with fold-by-base"}
    assert {finding.path for finding in report.findings} == {str(path) for path in tmp_path.iterdir()}
    assert len(list(tmp_path.iterdir())) == len(keys)


def test_the_share_that_ran_is_counted(tmp_path: Path) -> None:
    report = run(tmp_path, Reference("suffix-selection"))
    [share] = report.shares
    assert share.cases == report.cases == sum(share.verdicts.values())
    assert share.verdicts["refused needlessly"] > 0
    assert share.ran == share.cases - share.verdicts["refused needlessly"]
    assert sum(share.reasons.values()) == share.verdicts["refused needlessly"]
    assert share.reaches == {"worker-level": share.cases}
    assert report.features["cached prefix"] > 0


def test_a_case_that_is_easier_to_reach_replaces_the_first(tmp_path: Path) -> None:
    """Shrinking may not lead away from what a user can reach, either."""

    def reach(case: Case) -> Reach:
        return "reachable" if len(case.workers("producer")[0].layers) > 2 else "synthetic"

    report = run(tmp_path, Reference("suffix-selection", reach))
    for finding in report.findings:
        assert finding.outcome.reached is not None
        assert finding.outcome.reached.tag == reach(finding.case)
    [finding] = [found for found in report.findings if found.key.laws == ("alignment",)]
    assert reach(finding.case) == "reachable"
    assert 0 < finding.reachable < finding.cases


@pytest.mark.parametrize("verdict", ["hung", "garbage", "crashed"])
def test_a_target_that_is_lost_again_and_again_is_given_up(tmp_path: Path, verdict: OutcomeVerdict) -> None:
    hung, other = Broken(Outcome("case", verdict)), Reference("suffix-selection")
    report = run(tmp_path, hung, other)
    assert hung.asked == fuzzing.LOST_LIMIT
    assert [share.lost for share in report.shares] == [True, False]
    [finding] = [found for found in report.findings if found.key.target == "broken"]
    assert (finding.cases, finding.key.verdict) == (fuzzing.LOST_LIMIT, verdict)
    assert report.shares[1].cases > fuzzing.LOST_LIMIT


def test_a_target_that_says_where_it_crashed_is_still_there(tmp_path: Path) -> None:
    told = Told("transfer", "IndexError", "tuple index out of range", ("worker.py", 3))
    report = run(tmp_path, Broken(Outcome("case", "crashed", told=told)), cases=8)
    assert (report.cases, report.shares[0].lost) == (8, False)
    [finding] = report.findings
    # Whatever the case, it crashes: nothing is left of it but what a case must have.
    assert finding.cases == 8
    assert len(finding.case.workers("consumer")[0].layers) == 1


def test_a_run_ends_when_every_target_is_given_up(tmp_path: Path) -> None:
    report = run(tmp_path, Broken(Outcome("case", "garbage")))
    assert report.cases == fuzzing.LOST_LIMIT


def test_a_file_that_cannot_be_written_leaves_the_finding(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    report = run(path, Reference("suffix-selection"), cases=4)
    assert isinstance(report.unwritten, OSError)
    assert [finding.path for finding in report.findings] == [None] * len(report.findings)
    assert report.findings


def test_a_shrunk_case_keeps_the_tables_of_a_scheduler(tmp_path: Path) -> None:
    for finding in run(tmp_path, Reference("suffix-selection"), Reference("fold-by-base")).findings:
        assert finding.path is not None
        assert kvproof("check", finding.path).status == 0
        request = finding.case.request
        if request is None:
            continue  # the regions alone show it
        for worker in finding.case.worker:
            assert all(pool.null == 0 for pool in worker.pools)
            for group in worker.groups:
                table = worker.tables[group.name]
                if group.kind in ("attention", "sliding"):
                    assert group.block_tokens is not None
                    assert table.first + len(table.blocks) == -(-request.tokens // group.block_tokens)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_is_found_whatever_the_seed(tmp_path: Path, fault: str, seed: int) -> None:
    report = run(tmp_path, Reference(fault), cases=600, seed=seed)
    assert any(finding.key.verdict in ("corrupt", "hazard") for finding in report.findings)
