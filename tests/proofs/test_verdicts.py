# SPDX-License-Identifier: Apache-2.0
"""Each verdict is reached by what deserves it, with small claims made for that."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kvproof.proofs import budgets, engines, registry, run
from kvproof.proofs.claim import Claim, Instance, Lemma, Refutation, Theorem
from kvproof.proofs.engines.answer import Answer, Question, Status
from kvproof.proofs.lemmas.products import order
from kvproof.proofs.run import MissingExtra, Result, UnknownClaim, UnknownEngine
from kvproof.proofs.source import Numbers, Source
from kvproof.proofs.verdict import WORST_FIRST, worst
from kvproof.spec.logic import Bool, Int, floor_div


class Pair(NamedTuple):
    a: Int
    b: Int


class Small(Theorem[Pair]):
    """A number between the two numbers is between them."""

    id = "X01"

    def world(self, source: Source, variant: str) -> Pair:
        return Pair(source.integer("a"), source.integer("b"))

    def hypotheses(self, w: Pair) -> list[Bool]:
        return [0 < w.a, w.a < w.b]

    def claim(self, w: Pair) -> Bool:
        return 0 < w.b

    def example(self, variant: str) -> Numbers:
        return Numbers({"a": 1, "b": 2})


class Stub:
    """An engine that always answers the same."""

    def __init__(self, name: str, status: Status) -> None:
        self.name = name
        self.answer = Answer(status, 1, "because")

    def check(self, question: Question, seed: int) -> Answer:
        return self.answer


def verdict_on(claim: Claim[Any], *solvers: Any) -> Result:
    [result] = run.run([claim], solvers or engines.load(["z3", "cvc5"]), None, 0)
    return result


def test_proved() -> None:
    result = verdict_on(Small())
    assert result.verdict == "proved"
    assert {name: answer.answer for name, answer in result.engines.items()} == {"z3": "unsat", "cvc5": "unsat"}
    assert all(answer.units > 0 for answer in result.engines.values())


def test_refuted_by_a_counterexample_that_replays() -> None:
    class False_(Small):  # noqa: N801
        """Planted: false."""

        def claim(self, w: Pair) -> Bool:
            return w.a * w.a < w.b

        def example(self, variant: str) -> Numbers:
            return Numbers({"a": 1, "b": 5})

    result = verdict_on(False_())
    assert result.verdict == "refuted"
    assert result.counterexample == {"a": 2, "b": 3}


def test_refuted_by_its_own_example() -> None:
    class OffByOne(Small):
        """Planted: false of the example."""

        def claim(self, w: Pair) -> Bool:
            return 2 < w.b

    result = verdict_on(OffByOne())
    assert (result.verdict, result.counterexample) == ("refuted", {"a": 1, "b": 2})


def test_unknown_where_a_lifted_counterexample_does_not_replay() -> None:
    class Spurious(Small):
        """True, but not in linear form without a lemma."""

        def claim(self, w: Pair) -> Bool:
            return w.a <= w.a * w.b

    assert verdict_on(Spurious()).verdict == "unknown"


def test_a_lemma_instance_turns_it_into_a_proof() -> None:
    class Helped(Small):
        """The same with a lemma."""

        def claim(self, w: Pair) -> Bool:
            return w.a <= w.a * w.b

        def lemmas(self, w: Pair) -> list[Instance]:
            return [order(0, w.b, w.a), order(1, w.b, w.a)]

    assert verdict_on(Helped()).verdict == "proved"


def test_vacuous() -> None:
    class Impossible(Small):
        """Nothing is like that."""

        def hypotheses(self, w: Pair) -> list[Bool]:
            return [w.a < w.b, w.b < w.a]

    assert verdict_on(Impossible()).verdict == "vacuous"


def test_a_zero_divisor_is_no_world() -> None:
    class Divides(Small):
        """The example divides by zero."""

        def hypotheses(self, w: Pair) -> list[Bool]:
            return [floor_div(w.b, w.a - 1) == 2]

    assert verdict_on(Divides()).verdict == "vacuous"


@contextmanager
def tiny(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        for units in (budgets.Z3_UNITS, budgets.CVC5_UNITS):
            for kind in units:
                patch.setitem(units, kind, 1)
        yield


@pytest.mark.parametrize("engine", ["z3", "cvc5"])
def test_unknown_where_the_budget_is_exhausted(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with tiny(monkeypatch):
        [result] = run.prove(["P01"], [engine])
    assert (result.verdict, result.reason) == ("unknown", f"{engine}: budget exhausted")


def test_disagreement() -> None:
    assert verdict_on(Small(), Stub("one", "unsat"), Stub("two", "sat")).verdict == "disagreement"


def test_error_where_an_engine_fails() -> None:
    result = verdict_on(Small(), Stub("one", "unsat"), Stub("two", "error"))
    assert (result.verdict, result.reason) == ("error", "one: because; two: because")


def test_error_where_no_engine_was_asked() -> None:
    [result] = run.run([Small()], [], None, 0)
    assert result.verdict == "error"


def test_error_where_a_claim_raises() -> None:
    class Broken(Small):
        """Raises."""

        def claim(self, w: Pair) -> Bool:
            raise RuntimeError("no")

    result = verdict_on(Broken())
    assert (result.verdict, result.reason) == ("error", "RuntimeError: no")


def test_error_where_a_lemma_is_none() -> None:
    class Cheats(Small):
        """Uses a formula that nobody proved."""

        def lemmas(self, w: Pair) -> list[Instance]:
            return [w.b > 7]

    assert verdict_on(Cheats()).verdict == "error"


def test_error_where_an_instance_is_false() -> None:
    class Wrong(Small):
        """Uses an instance that cannot be one."""

        def lemmas(self, w: Pair) -> list[Instance]:
            return [Instance("P01", w.b < 0)]

    result = verdict_on(Wrong())
    assert (result.verdict, result.reason) == ("error", "an instance of P01 is false in the example")


def test_a_raw_product_is_no_theorem_for_cvc5() -> None:
    class Nonlinear(Lemma[Pair]):
        """Checked as it stands."""

        id = "X02"

        def world(self, source: Source, variant: str) -> Pair:
            return Pair(source.integer("a"), source.integer("b"))

        def hypotheses(self, w: Pair) -> list[Bool]:
            return [0 <= w.a]

        def claim(self, w: Pair) -> Bool:
            return 0 <= w.a * w.a

        def example(self, variant: str) -> Numbers:
            return Numbers({"a": 1, "b": 0})

    assert verdict_on(Nonlinear()).verdict == "proved"


class Wrong(Refutation[Pair]):
    """All products of two numbers are below four."""

    id = "X03"

    def world(self, source: Source, variant: str) -> Pair:
        return Pair(source.integer("a"), source.integer("b"))

    def hypotheses(self, w: Pair) -> list[Bool]:
        return [0 < w.a, w.a < w.b]

    def claim(self, w: Pair) -> Bool:
        return w.a * w.b < 4


def test_a_refutation_is_proved_by_a_small_counterexample() -> None:
    result = verdict_on(Wrong())
    assert (result.verdict, result.counterexample) == ("proved", {"a": 2, "b": 3})


def test_a_refutation_is_refuted_where_there_is_no_counterexample() -> None:
    class True_(Wrong):  # noqa: N801
        """The rule is no fault at all."""

        def claim(self, w: Pair) -> Bool:
            return 0 < w.b

    assert verdict_on(True_()).verdict == "refuted"


def test_a_refutation_is_unknown_where_the_counterexample_is_too_large() -> None:
    class Far(Wrong):
        """Wrong, but far away."""

        def claim(self, w: Pair) -> Bool:
            return w.b < 1000

    assert verdict_on(Far()).verdict == "unknown"


def test_a_refutation_is_unknown_where_it_does_not_replay_on_the_reference() -> None:
    class Lawful(Wrong):
        """The reference is not wrong there."""

        def on_reference(self, w: Pair) -> bool:
            return False

    assert verdict_on(Lawful()).verdict == "unknown"


def test_a_refutation_is_a_disagreement_where_an_engine_objects() -> None:
    assert verdict_on(Wrong(), Stub("one", "sat"), Stub("two", "unsat")).verdict == "disagreement"


def test_worst_wins() -> None:
    assert worst(["proved", "unknown"]) == "unknown"
    assert worst(WORST_FIRST) == "error"
    assert worst([]) == "error"


def test_all_variants_must_be_proved() -> None:
    class Half(Small):
        """True in one variant only."""

        variants = ("true", "false")

        def world(self, source: Source, variant: str) -> Pair:
            return Pair(source.integer("a"), source.integer("a" if variant == "true" else "b"))

        def hypotheses(self, w: Pair) -> list[Bool]:
            return [0 < w.a]

        def claim(self, w: Pair) -> Bool:
            return 0 < w.b

    result = verdict_on(Half())
    assert result.verdict == "refuted"


def test_unknown_names_are_told_before_anything_runs() -> None:
    with pytest.raises(UnknownClaim, match="P99"):
        run.prove(["P01", "P99"])
    with pytest.raises(UnknownEngine, match="yices"):
        run.prove(["P01"], ["yices"])
    with pytest.raises(UnknownEngine):
        run.prove(["P01"], [])


def test_claims_are_chosen_by_id_or_name() -> None:
    chosen = [*run.prove(["suffix_selection", "p06"], ["z3"])]
    assert [result.id for result in chosen] == ["P06", "R02"]


def test_a_missing_solver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cvc5", None)
    with pytest.raises(MissingExtra, match=r"cvc5 is not installed.*kvproof\[prove\]"):
        run.prove(["P01"])
    assert [result.verdict for result in run.prove(["P01"], ["z3"])] == ["proved"]


def test_queries_are_dumped(tmp_path: Path) -> None:
    assert [result.verdict for result in run.prove(["P12", "R02"], smt2=tmp_path)] == ["proved", "proved"]
    names = {file.name for file in tmp_path.iterdir()}
    assert {"P12-unit-major.smt2", "P12-state-major.smt2", "R02-within-1.smt2", "R02-found.smt2"} <= names
    text = (tmp_path / "P12-unit-major.smt2").read_text()
    assert text.startswith("(set-logic QF_UFLIA)\n")
    assert text.endswith("(check-sat)\n")


def test_results_do_not_depend_on_what_ran_before() -> None:
    alone = [*run.prove(["R02"])]
    assert [result for result in run.prove(["P15", "R01", "R02"]) if result.id == "R02"] == alone


def test_the_registry_notices_a_lost_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    registry.claims.cache_clear()
    monkeypatch.setattr(registry, "COUNT", registry.COUNT + 1)
    with pytest.raises(run.Incomplete):
        registry.claims()
    registry.claims.cache_clear()
