# SPDX-License-Identifier: Apache-2.0
"""docs/PROPERTIES.md lists every claim that is proven, as it is proven, and no other."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from kvproof.proofs import registry
from kvproof.spec.judge.verdict import LAWS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "PROPERTIES.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_page_lists_the_claims() -> None:
    rows = re.findall(
        r"^\| ([PR]\d\d) \| (?:\*\*must be false:\*\* )?(.*?) \| (.*?) \| `(.*?)` \|$", PAGE, re.MULTILINE
    )
    assert rows == [
        (claim.id, claim.sentence(), claim.law or "–", registry.file_of(claim)) for claim in registry.claims()
    ]


def test_each_law_names_its_claims() -> None:
    rows = dict(re.findall(r"^\| \[L\d+\]\(#.*?\) \| (.*?) \|(.*)$", PAGE, re.MULTILINE))
    claims = registry.claims()
    assert {law: _ids(row) for law, row in rows.items()} == {
        law: {claim.id for claim in claims if claim.law == law} for law in LAWS
    }


def test_the_readme_counts_the_claims() -> None:
    kinds = Counter(claim.kind for claim in registry.claims())
    counts = f"{kinds['lemma']} lemmas, {kinds['theorem']} theorems, {kinds['refutation']} refutations"
    assert f"{registry.COUNT} claims by z3 and cvc5: {registry.COUNT} proved ({counts})" in README


def _ids(row: str) -> set[str]:
    found = set(re.findall(r"[PR]\d\d", row))
    for letter, first, last in re.findall(r"([PR])(\d\d)–[PR](\d\d)", row):
        found |= {f"{letter}{number:02}" for number in range(int(first), int(last) + 1)}
    return found
