# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest
from commands import PADDED_TAIL, REGRESSIONS, edited, kvproof
from syrupy.assertion import SnapshotAssertion

SHOWN = [
    "hisparse-padded-tail",
    "hisparse-reverse-geometry-cached",
    "sliding-window-inside-block",
    "v41-aliased-groups",
    "hybrid-two-ssm-groups",
    "refused-table-short-on-producer",
]


@pytest.mark.parametrize("name", SHOWN)
def test_page_map(name: str, snapshot: SnapshotAssertion) -> None:
    ran = kvproof("explain", REGRESSIONS / f"{name}.toml")
    assert ran.status == 0
    assert ran.out == snapshot


def test_every_state_of_a_page_is_told() -> None:
    states = set()
    for path in sorted(REGRESSIONS.glob("*.toml")):
        data = kvproof("explain", path, "--json").data
        states |= {row["target"]["state"] for page_map in data["maps"] for row in page_map["rows"]}
    assert states >= {"received", "cached", "before window", "zeroed", "unused", "null", "absent"}


def test_received_pages_are_the_expected_ones() -> None:
    data = kvproof("explain", PADDED_TAIL, "--json").data
    rows = data["maps"][0]["rows"]
    moved = [(row["source"]["page"], row["target"]["page"]) for row in rows if row["target"]["state"] == "received"]
    assert moved == [(20, 30), (21, 31), (22, 32)]
    assert rows[3]["source"] == {"block": 11, "page": 23, "state": "unused"}
    assert data["ids"] == {"P0": [20, 21, 22, 120, 121, 122], "D0": [30, 31, 32, 140, 141, 142]}
    assert data["regions"]["P0"][0]["members"] == [{"layer": "layers.0.attn", "offset": 0, "part": None}]


def test_long_tables_are_cut_with_a_count(tmp_path: Path) -> None:
    case = edited(
        tmp_path,
        ("tokens = 160", "tokens = 2560"),
        ("[10, 11]", str(list(range(20)))),
        ("[30, 31, 32]", str(list(range(40)))),
        ("[40, 41, 42]", str(list(range(50, 90)))),
    )
    lines = kvproof("explain", case).lines
    assert sum("… 34 more" in line for line in lines) == 2
    assert sum("… 40 in all" in line for line in lines) == 4


def test_ids_are_told_by_group_and_region() -> None:
    lines = kvproof("explain", REGRESSIONS / "hybrid-two-ssm-groups.toml").lines
    start = lines.index("  m0: P0/kv → D0/kv, layers.4.mamba, state")
    assert lines[start + 1 : start + 3] == ["    P0: 92", "    D0: 115"]


def test_lines_fit_100_columns() -> None:
    for name in SHOWN[:5]:
        assert max(map(len, kvproof("explain", REGRESSIONS / f"{name}.toml").lines[2:])) <= 100


def test_not_covered_is_exit_3() -> None:
    path = REGRESSIONS / "not-covered-tensor-parallel.toml"
    ran = kvproof("explain", path)
    assert ran.status == 3
    assert "tp of size 2" in ran.out
