# SPDX-License-Identifier: Apache-2.0
"""``bisect`` and ``compare``: what changed, and whether it is worse."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import kvproof
from stand_ins import know, stand_in

TAIL = "hisparse-padded-tail"
ONE_GROUP = "hisparse-padded-tail-one-group"
RING = "v41-flash-window-and-ring"
ALIASED = "v41-aliased-groups-transfer"


@pytest.fixture(autouse=True)
def no_real_target(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, {})
    know(monkeypatch)


def between(
    monkeypatch: pytest.MonkeyPatch, base: str, head: str, *cases: str
) -> tuple[int, list[tuple[str, str, bool]]]:
    """Exit status and changes of a comparison of two habits."""
    stand_in(monkeypatch, {"0.32.0": base, "0.33.0": head})
    ran = kvproof("upstream", "compare", "0.32.0", "0.33.0", *cases, "--json")
    assert ran.data["exit"] == ran.status
    return ran.status, [(entry["case"], entry["kind"], entry["worse"]) for entry in ran.data["changes"]]


def test_the_same_is_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    assert between(monkeypatch, "suffix-selection", "suffix-selection", TAIL, ONE_GROUP) == (0, [])
    out = kvproof("upstream", "compare", "0.32.0", "0.33.0", TAIL, ONE_GROUP).out
    assert "0.32.0 → 0.33.0: no difference; 2 of 2 cases unchanged" in out


WORSE = [
    ("lawful", "suffix-selection", ONE_GROUP, "newly corrupt", 1),
    ("suffix-selection", "lawful", ONE_GROUP, "newly lawful", 0),
    ("lawful", "row-fold-by-base", ALIASED, "newly wasteful", 1),
    ("row-fold-by-base", "row-fold-by-base-and-length", ALIASED, "changed", 1),
    ("row-fold-by-base-and-length", "row-fold-by-base", ALIASED, "changed", 0),
    ("row-fold-by-base", "refuses politely", ALIASED, "newly refused needlessly", 1),
    ("refuses", "row-fold-by-base", ALIASED, "newly wasteful", 0),
    ("lawful", "dies", TAIL, "newly crashed", 1),
    ("suffix-selection", "hangs", ONE_GROUP, "newly hung", 0),
    ("refuses", "refuses politely", TAIL, "changed", 0),
    ("lawful", "is not driven", TAIL, "newly not-covered", 3),
    ("is not driven", "lawful", TAIL, "newly lawful", 0),
    ("is not driven", "suffix-selection", ONE_GROUP, "newly corrupt", 1),
    ("is not driven", "refuses", TAIL, "newly refused needlessly", 0),
    ("breaks the probe", "lawful", TAIL, "newly lawful", 70),
    ("fold-by-base", "lawful", RING, "newly lawful", 0),
]


@pytest.mark.parametrize(("base", "head", "case", "kind", "status"), WORSE)
def test_what_is_worse(
    monkeypatch: pytest.MonkeyPatch, base: str, head: str, case: str, kind: str, status: int
) -> None:
    assert between(monkeypatch, base, head, case) == (status, [(case, kind, status == 1)])


def test_nothing_known_of_either_side_is_exit_3(monkeypatch: pytest.MonkeyPatch) -> None:
    assert between(monkeypatch, "is not driven", "is not driven", TAIL) == (3, [])


def test_words_name_laws_regions_and_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, {"0.32.0": "fold-by-base", "0.33.0": "row-fold-by-base"})
    ran = kvproof("upstream", "compare", "0.32.0", "0.33.0", RING, ONE_GROUP)
    assert ran.lines[:10] == [
        f"{RING}: newly lawful",
        "    worker-level: the kernel page is a stub's",
        "    launch: P: --block-size 128",
        "    corrupt (coverage, folding) → lawful",
        "    regions of P0: kv at 0, 9 pages of 19,008 bytes every 38,016 (swa, ring); "
        "kv at 19008, 9 pages of 19,008 bytes every 38,016 (swa) → "
        "kv at 0, 9 pages of 38,016 bytes every 38,016 (swa, ring)",
        "    regions of D0: kv at 0, 9 pages of 19,008 bytes every 38,016 (swa, ring); "
        "kv at 19008, 9 pages of 19,008 bytes every 38,016 (swa) → "
        "kv at 0, 9 pages of 38,016 bytes every 38,016 (swa, ring)",
        "    other bytes move: 209,088 bytes → 228,096 bytes",
        "    whole pages of layers.0.compressor: none → 4→5",
        f"    again: kvproof upstream --release 0.33.0 --connector nixl-pull --nixl fake {RING}",
        "0.32.0 → 0.33.0: 1 newly lawful; 1 of 2 cases unchanged",
    ]


def test_worst_change_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    _, found = between(monkeypatch, "fold-by-base", "suffix-selection", RING, ONE_GROUP)
    assert [case for case, _, _ in found] == [ONE_GROUP, RING]


def test_paths_and_releases_can_be_compared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in(monkeypatch, {str(tmp_path): "suffix-selection"})
    ran = kvproof("upstream", "compare", "0.33.0", tmp_path, ONE_GROUP)
    assert ran.status == 1
    assert ran.lines[0].startswith(f"{ONE_GROUP}: newly corrupt: D0, layers.0.attn, page 31: tokens 0–63 come from")
    assert f"again: kvproof upstream --source {tmp_path}" in ran.out


def test_bisect_names_every_release_and_the_first_that_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    habits = {"0.25.0": "is not driven", "0.28.0": "suffix-selection", "0.29.0": "suffix-selection"}
    stand_in(monkeypatch, {**habits, "0.32.0": "suffix-selection"})
    ran = kvproof("upstream", "bisect", ONE_GROUP)
    assert ran.status == 0
    outcomes = [line.split(maxsplit=1) for line in ran.lines[2:9]]
    assert [name for name, _ in outcomes] == ["0.25.0", "0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0"]
    assert outcomes[0][1] == "not-covered: this release has no rings"
    assert outcomes[1][1].startswith("corrupt (alignment), worker-level: D0, layers.0.attn, page 31: tokens 0–63")
    assert outcomes[3][1] == "lawful"
    changed = [line for line in ran.lines if line.startswith(("first change", "then"))]
    assert changed == ["first change: 0.30.0 after 0.29.0", "then: 0.32.0 after 0.31.0", "then: 0.33.0 after 0.32.0"]
    data = kvproof("upstream", "bisect", ONE_GROUP, "--json").data
    assert (data["action"], data["first_change"], len(data["rows"])) == ("bisect", "0.30.0", 7)
    assert data["changes"][0]["words"][0] == "corrupt (alignment) → lawful"


def test_bisect_without_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = kvproof("upstream", "bisect", TAIL)
    assert ran.status == 0
    assert "no change from 0.25.0 to 0.33.0" in ran.lines
    assert kvproof("upstream", "bisect", TAIL, "--json").data["first_change"] is None


def test_bisect_of_what_nobody_covers_is_exit_3() -> None:
    ran = kvproof("upstream", "bisect", "not-covered-tensor-parallel")
    assert ran.status == 3
    assert "nothing is known of it" in ran.lines
