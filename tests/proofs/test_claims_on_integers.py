# SPDX-License-Identifier: Apache-2.0
"""Claims on integers: where the hypotheses hold the claim does, and an instance of a proven claim is never false.

This is what notices a wrong lemma instance, a claim that says something else than it proves, and hypotheses that hold
of hardly anything.
"""

from typing import Any

import pytest
from hypothesis import given, settings
from proof_worlds import neighbours, transfers

from kvproof.proofs import registry, replay
from kvproof.proofs.claim import Claim
from kvproof.proofs.source import Numbers

PROVEN = [(claim, v) for claim in registry.claims() if claim.kind != "refutation" for v in claim.variants]
FROM_SCRATCH = [(claim, v) for claim, v in PROVEN if "target.block" in claim.example(v).functions]
OTHER_WORLDS = {"P12", "P13", "P16", "P17", "P19", "P20", "P27", "P31", "P32"}
"""Claims over a layer or two alone, or over a plan or memory that are no part of a transfer built from scratch."""
BUILT = [(claim, v) for claim, v in FROM_SCRATCH if claim.id not in OTHER_WORLDS]


def hit(claim: Claim[Any], variant: str, numbers: Numbers) -> bool:
    """Asserts all that must hold of these numbers; whether the hypotheses do."""
    try:
        world = claim.world(numbers, variant)
        instances = claim.lemmas(world)
    except ValueError:
        return False  # a divisor of zero
    assert [instance.claim for instance in instances if not instance.formula] == []
    if not replay.assumed(claim, variant, numbers):
        return False
    assert replay.holds(claim, variant, numbers), numbers
    return True


@pytest.mark.parametrize(("claim", "variant"), PROVEN, ids=lambda value: getattr(value, "id", value))
def test_claims_hold_near_their_example(claim: Claim[Any], variant: str) -> None:
    hits = 0

    @settings(max_examples=40, deadline=None, derandomize=True, database=None)
    @given(neighbours(claim.example(variant)))
    def check(numbers: Numbers) -> None:
        nonlocal hits
        hits += hit(claim, variant, numbers)

    check()
    assert hits >= 3


@pytest.mark.parametrize(("claim", "variant"), BUILT, ids=lambda value: getattr(value, "id", value))
def test_claims_hold_of_transfers_from_scratch(claim: Claim[Any], variant: str) -> None:
    hits = 0

    @settings(max_examples=60, deadline=None, derandomize=True, database=None)
    @given(transfers())
    def check(numbers: Numbers) -> None:
        nonlocal hits
        hits += hit(claim, variant, numbers)

    check()
    assert hits >= 3
