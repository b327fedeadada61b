# SPDX-License-Identifier: Apache-2.0
"""What the pinned releases are known for, worked out by hand: `expected.toml` is written by a machine."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from commands import kvproof

pytestmark = pytest.mark.upstream

CASES = (
    "v41-flash-window-and-ring", "v41-aliased-groups-transfer", "mla-padded-tail", "mla-padded-tail-split-groups",
    "hybrid-equal-geometry", "hisparse-padded-tail",
)  # fmt: skip


@cache
def ran(nixl: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Rows by release and case."""
    found = kvproof("upstream", *CASES, "--nixl", nixl, "--json")
    return {(row["target"], row["case"]): row for row in found.data["rows"]}


NIXL = pytest.mark.parametrize("nixl", ["fake", "real"])


@NIXL
def test_fold_by_base_truncates_the_ring_until_whole_rows_mask_it(nixl: str) -> None:
    row = ran(nixl)["0.32.0", "v41-flash-window-and-ring"]
    assert (row["verdict"], row["laws"], row["rules"]) == ("corrupt", ["coverage", "folding"], ["fold-by-base"])
    [wrong] = row["corrupt"]
    assert (wrong["storage"], wrong["bytes"]) == ("D0/kv", 32_768 - 19_008)
    assert [region["bytes"] for region in row["regions"]["D0"]] == [19_008, 19_008]
    row = ran(nixl)["0.33.0", "v41-flash-window-and-ring"]
    assert (row["verdict"], row["laws"]) == ("lawful", [])
    assert [region["bytes"] for region in row["regions"]["D0"]] == [38_016]


@NIXL
def test_row_and_a_page_inside_it_are_both_sent(nixl: str) -> None:
    row = ran(nixl)["0.33.0", "v41-aliased-groups-transfer"]
    assert (row["verdict"], row["rules"]) == ("wasteful", ["row-fold-by-base"])
    moved, useful = row["ratios"]["D0.ring"]
    assert moved * 2 == useful * 3
    assert ran(nixl)["0.32.0", "v41-aliased-groups-transfer"]["verdict"] == "lawful"


@NIXL
@pytest.mark.parametrize("release", ["0.32.0", "0.33.0"])
def test_padded_tail_of_equal_groups(nixl: str, release: str) -> None:
    row = ran(nixl)[release, "mla-padded-tail"]
    assert (row["verdict"], row["laws"], row["rules"]) == ("corrupt", ["alignment"], ["suffix-selection"])
    assert [source for source, _ in row["pages"][0]["moved"]] == [7, 10, 11]
    assert [source for source, _ in row["pages"][0]["lawful"]] == [6, 7, 10]


@NIXL
@pytest.mark.parametrize("release", ["0.32.0", "0.33.0"])
@pytest.mark.parametrize("case", ["mla-padded-tail-split-groups", "hisparse-padded-tail", "hybrid-equal-geometry"])
def test_lawful(nixl: str, release: str, case: str) -> None:
    row = ran(nixl)[release, case]
    assert (row["verdict"], row["laws"]) == ("lawful", [])


def test_both_kinds_of_nixl_do_the_same() -> None:
    keys = ("verdict", "laws", "words", "ratios", "reached", "regions", "pages", "memory")
    fake, real = ({key: [row[name] for name in keys] for key, row in ran(nixl).items()} for nixl in ("fake", "real"))
    assert fake == real


def test_memory_was_compared() -> None:
    assert {row["memory"] for row in ran("real").values()} == {"agrees"}


def test_comparison_names_the_change() -> None:
    found = kvproof("upstream", "compare", "0.32.0", "0.33.0", *CASES, "--json")
    assert found.status == 1, "one case is newly wasteful"
    changes = {change["case"]: change["kind"] for change in found.data["changes"]}
    assert changes.pop("v41-flash-window-and-ring") == "newly lawful"
    assert changes.pop("v41-aliased-groups-transfer") == "newly wasteful"
    assert set(changes.values()) <= {"changed"}
