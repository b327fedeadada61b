# SPDX-License-Identifier: Apache-2.0
"""docs/PROPERTIES.md lists every claim that is proven, as it is proven, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from kvproof.proofs.run import obligations

PAGE = (Path(__file__).parents[2] / "docs" / "PROPERTIES.md").read_text()


def test_the_page_lists_the_claims() -> None:
    rows = re.findall(
        r"^\| ([PR]\d\d) \| (?:\*\*must be false:\*\* )?(.*?) \| (.*?) \| `(.*?)` \|$", PAGE, re.MULTILINE
    )
    assert [(row[0], row[1], row[2]) for row in rows] == [
        (claim.id, claim.claim, claim.law or "–") for claim in obligations()
    ]


def test_each_law_names_its_claims() -> None:
    for claim in obligations():
        if claim.law is not None and claim.kind != "lemma":
            [row] = re.findall(rf"^\| \[L\d+\]\(#.*?\) \| {claim.law} \|.*$", PAGE, re.MULTILINE)
            assert claim.id in _ids(row), (claim.id, claim.law)


def _ids(row: str) -> set[str]:
    found = set(re.findall(r"[PR]\d\d", row))
    for letter, first, last in re.findall(r"([PR])(\d\d)–[PR](\d\d)", row):
        found |= {f"{letter}{number:02}" for number in range(int(first), int(last) + 1)}
    return found
