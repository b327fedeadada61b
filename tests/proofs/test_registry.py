# SPDX-License-Identifier: Apache-2.0
"""The registry holds every claim there is, and proofs rest on nothing that is not in it."""

import inspect
from importlib import import_module
from pathlib import Path

import pytest

from kvproof.proofs import questions, registry
from kvproof.proofs.claim import Claim, Refutation
from kvproof.proofs.symbols import Terms

ROOT = Path(__file__).parent.parent.parent
LAWS = {
    "coverage", "alignment", "confinement", "bounds", "single-writer", "folding",
    "descriptor-ids", "parity", "zeroing", "partition", "economy",
}  # fmt: skip


def uses(claim: Claim) -> set[str]:
    """Ids of the claims that a proof uses instances of."""
    found = set()
    for variant in claim.variants:
        found |= {instance.claim for instance in claim.lemmas(claim.world(Terms(), variant))}
    return found


def test_the_count_is_right() -> None:
    assert len(registry.claims()) == registry.COUNT


def test_every_file_of_the_proofs_is_read() -> None:
    files = {file for folder in registry.FOLDERS for file in (ROOT / "proofs" / folder).rglob("*.py")}
    read = {inspect.getsourcefile(import_module(name)) for name in registry.modules()}
    assert {file.name for file in files} - {"__init__.py"} == {Path(str(name)).name for name in read}


def test_every_claim_class_of_the_files_is_registered() -> None:
    known = {type(claim) for claim in registry.claims()}
    for name in registry.modules():
        for member in vars(import_module(name)).values():
            if isinstance(member, type) and issubclass(member, Claim) and hasattr(member, "id"):
                assert member in known


def test_the_25_claims_of_the_plan_are_there() -> None:
    ids = {claim.id for claim in registry.claims()}
    assert {f"P{number:02}" for number in range(1, 26)} <= ids


def test_ids_say_what_kind_they_are() -> None:
    for claim in registry.claims():
        assert (claim.id[0] == "R") == isinstance(claim, Refutation)
        assert registry.file_of(claim).split("/")[1] == {"lemma": "lemmas"}.get(claim.kind, f"{claim.kind}s")
        assert (ROOT / registry.file_of(claim)).is_file()


@pytest.mark.parametrize("claim", registry.claims(), ids=lambda claim: claim.id)
def test_every_claim_says_what_it_claims(claim: Claim) -> None:
    assert claim.sentence().endswith(".")
    assert len(claim.sentence()) < 160
    assert claim.kind == "lemma" or claim.law is not None


def test_every_law_has_a_theorem_and_a_refutation() -> None:
    for kind in ("theorem", "refutation"):
        assert {claim.law for claim in registry.claims() if claim.kind == kind} >= LAWS


def test_proofs_use_proven_claims_without_a_circle() -> None:
    used = {claim.id: uses(claim) for claim in registry.claims()}
    settled: set[str] = set()
    while len(settled) < len(used):
        ready = {id for id, others in used.items() if others <= settled} - settled
        assert ready, "a proof rests on itself"
        settled |= ready


def test_what_is_used_is_no_refutation() -> None:
    assert not {id for claim in registry.claims() for id in uses(claim) if id.startswith("R")}


def test_theorems_are_linear_after_the_lift() -> None:
    for claim in registry.claims():
        if claim.kind == "theorem":
            assert questions.lifted(questions.raw(claim, claim.variants[0])).logic == "QF_UFLIA"
