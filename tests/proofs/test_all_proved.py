# SPDX-License-Identifier: Apache-2.0
"""Everything is proved by both engines, well within the budgets, and the counterexamples are the known ones."""

import subprocess
import sys

import pytest

from kvproof.proofs import budgets, registry
from kvproof.proofs.run import Result, prove


@pytest.fixture(scope="module")
def results() -> dict[str, Result]:
    return {result.id: result for result in prove()}


def test_all_are_proved(results: dict[str, Result]) -> None:
    assert list(results) == [claim.id for claim in registry.claims()]
    assert {id: (r.verdict, r.reason) for id, r in results.items() if r.verdict != "proved"} == {}


def test_both_engines_answered_each(results: dict[str, Result]) -> None:
    for result in results.values():
        expected = "sat" if result.kind == "refutation" else "unsat"
        assert {name: answer.answer for name, answer in result.engines.items()} == {"z3": expected, "cvc5": expected}


def test_budgets_leave_room(results: dict[str, Result]) -> None:
    for id, result in results.items():
        kind = "search" if result.kind == "refutation" else result.kind
        variants = len(next(claim for claim in registry.claims() if claim.id == id).variants)
        for engine, units in (("z3", budgets.Z3_UNITS), ("cvc5", budgets.CVC5_UNITS)):
            assert result.engines[engine].units / variants < units[kind] / 2, (id, engine)


def test_suffix_selection_fails_in_the_smallest_way(results: dict[str, Result]) -> None:
    found = results["R02"].counterexample
    assert found["tokens"] == 1
    assert found["states_per_page"] * found["tokens_per_state"] == 1
    assert (found["source.pages_per_block"], found["target.pages_per_block"]) == (2, 1)


def test_the_stowaway_is_one_byte_beside_a_view_of_one_byte(results: dict[str, Result]) -> None:
    found = results["R09"].counterexample
    for side in ("source", "target"):
        assert (found[f"{side}.own.bytes"], found[f"{side}.region.bytes"]) == (1, 2)
    offsets = [found[f"{side}.other.offset"] - found[f"{side}.region.offset"] for side in ("target", "source")]
    assert offsets == [1, 2]


def test_counterexamples_are_said_in_words(results: dict[str, Result]) -> None:
    assert results["R10"].words == "1 of 2 bytes never arrive"


def test_the_run_needs_no_solver_to_list_what_there_is() -> None:
    program = (
        "import sys; sys.modules.update(z3=None, cvc5=None)\n"
        "from kvproof.proofs.registry import claims\n"
        "from kvproof.proofs.run import MissingExtra, prove\n"
        "assert len(claims()) > 80\n"
        "try:\n    prove()\nexcept MissingExtra as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "z3-solver is not installed; proofs need it: pip install 'kvproof[prove]'\n"
