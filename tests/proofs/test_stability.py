# SPDX-License-Identifier: Apache-2.0
"""Proofs do not hang on luck: other seeds, another order of formulas and other names change no answer."""

import random

import pytest
import z3

from kvproof.proofs import questions, registry
from kvproof.proofs.claim import Claim
from kvproof.proofs.engines import load
from kvproof.proofs.engines.answer import Question
from kvproof.proofs.symbols import subterms

PROVEN = [(claim, v) for claim in registry.claims() if claim.kind != "refutation" for v in claim.variants]


def renamed(question: Question, seed: int) -> Question:
    """The same question, its formulas shuffled and its integers called otherwise."""
    rng = random.Random(seed)
    constants = {
        term.decl().name(): term for term in subterms(question.formulas) if z3.is_int(term) and z3.is_const(term)
    }
    names = [name for name, term in sorted(constants.items()) if not z3.is_int_value(term)]
    pairs = [
        (constants[name], z3.Int(f"v{number}"))
        for name, number in zip(names, rng.sample(range(10**6), len(names)), strict=True)
    ]
    formulas = [z3.substitute(formula, *pairs) for formula in question.formulas]
    rng.shuffle(formulas)
    return questions.question(question.name, question.kind, formulas)


@pytest.mark.sweep
@pytest.mark.parametrize(("claim", "variant"), PROVEN, ids=lambda value: getattr(value, "id", value))
def test_eight_seeds_shuffles_and_names_all_prove(claim: Claim, variant: str) -> None:
    query = questions.raw(claim, variant)
    question = questions.direct(query) if claim.kind == "lemma" else questions.lifted(query)
    for seed in range(8):
        asked = renamed(question, seed) if seed else question
        assert {engine.name: engine.check(asked, seed).status for engine in load(["z3", "cvc5"])} == {
            "z3": "unsat",
            "cvc5": "unsat",
        }
