# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path
from typing import Any

import pytest
from commands import PADDED_TAIL, REGRESSIONS, edited, kvproof

PLAN: dict[str, Any] = {
    "format": 1,
    "case": "hisparse-padded-tail",
    "copies": [
        {"source": ["P0", "main", 1280], "target": ["D0", "host", 1920], "bytes": 64,
         "count": 3, "source_stride": 64, "target_stride": 64},
        {"source": ["P0", "index", 2560], "target": ["D0", "index", 5120], "bytes": 128,
         "count": 3, "source_stride": 128, "target_stride": 128},
    ],
    "zeroes": [],
}  # fmt: skip


def written(folder: Path, plan: dict[str, Any]) -> Path:
    path = folder / "plan.json"
    path.write_text(json.dumps(plan), encoding="utf-8")
    return path


def test_plan_by_hand_is_lawful(tmp_path: Path) -> None:
    ran = kvproof("judge", PADDED_TAIL, written(tmp_path, PLAN))
    assert ran.status == 0
    assert ran.lines[0] == "hisparse-padded-tail: lawful"
    assert "not applicable to what was given: folding, descriptor-ids, parity" in ran.out


@pytest.mark.parametrize("copy", [0, 1])
@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("shift", [-1, 1, 64])
def test_any_offset_changed_is_rejected(tmp_path: Path, copy: int, side: str, shift: int) -> None:
    plan = json.loads(json.dumps(PLAN))
    plan["copies"][copy][side][2] += shift
    ran = kvproof("judge", PADDED_TAIL, written(tmp_path, plan), "--json")
    assert ran.status == 1
    assert ran.data["verdict"] == "corrupt"
    assert ran.data["findings"][0]["witness"]["worker"] in ("D0", "P0")


@pytest.mark.parametrize("flag", [[], ["--descriptors"]])
@pytest.mark.parametrize("route", ["reference", "gpu"])
@pytest.mark.parametrize("name", ["hisparse-padded-tail", "hybrid-two-ssm-groups", "mixed-memory"])
def test_own_plans_are_lawful(name: str, route: str, flag: list[str]) -> None:
    case = REGRESSIONS / f"{name}.toml"
    plan = kvproof("plan", case, "--route", route, *flag)
    assert plan.status == 0
    ran = kvproof("judge", case, "-", "--json", stdin=plan.out.encode())
    assert (ran.status, ran.data["verdict"]) == (0, "lawful")


def test_faulty_plan_and_faulty_lists_are_judged_alike() -> None:
    seen = []
    for flag in ([], ["--descriptors"]):
        plan = kvproof("plan", PADDED_TAIL, "--fault", "suffix-selection", *flag)
        ran = kvproof("judge", PADDED_TAIL, "-", "--json", stdin=plan.out.encode())
        assert ran.status == 1
        seen.append((ran.data["verdict"], ran.data["laws"], ran.data["words"], ran.data["corrupt"]))
    assert seen[0] == seen[1]
    assert seen[0][1] == ["alignment"]


def test_case_from_standard_input(tmp_path: Path) -> None:
    ran = kvproof("judge", "-", written(tmp_path, PLAN), stdin=PADDED_TAIL.read_bytes())
    assert ran.status == 0


def test_wasteful_is_exit_0_unless_strict(tmp_path: Path) -> None:
    plan = {**PLAN, "copies": [*PLAN["copies"], PLAN["copies"][0]]}
    path = written(tmp_path, plan)
    assert kvproof("judge", PADDED_TAIL, path).status == 0
    ran = kvproof("judge", PADDED_TAIL, path, "--strict")
    assert ran.status == 1
    assert "wasteful (economy); bytes moved ÷ useful: D0.host 2" in ran.out


def test_plan_for_a_refused_pair_is_exit_1(tmp_path: Path) -> None:
    case = REGRESSIONS / "refused-layer-absent.toml"
    path = written(tmp_path, {"format": 1, "case": "refused-layer-absent"})
    ran = kvproof("judge", case, path, "--json")
    assert (ran.status, ran.data["verdict"]) == (1, "refused")
    assert "absent" in ran.data["reason"]


def test_plan_for_what_is_not_modelled_is_exit_3(tmp_path: Path) -> None:
    case = edited(tmp_path, ("[30, 31, 32], cached_tokens = 0", "[30, 31, 32], cached_tokens = 1"))
    ran = kvproof("judge", case, written(tmp_path, PLAN), "--json")
    assert (ran.status, ran.data["verdict"]) == (3, "not-covered")


def test_plan_with_permutes_is_exit_3(tmp_path: Path) -> None:
    ran = kvproof("judge", PADDED_TAIL, written(tmp_path, {**PLAN, "permutes": [{}]}), "--json")
    assert (ran.status, ran.data["verdict"]) == (3, "not-covered")


def test_refused_and_unmodelled_pairs_have_no_plan(tmp_path: Path) -> None:
    refused = REGRESSIONS / "refused-layer-absent.toml"
    ran = kvproof("plan", refused)
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith(f"{refused}: refused: ")
    assert kvproof("plan", refused, "--json").data["verdict"] == "refused"
    case = edited(tmp_path, ("[30, 31, 32], cached_tokens = 0", "[30, 31, 32], cached_tokens = 1"))
    assert kvproof("plan", case).status == 3
    assert kvproof("plan", case, "--json").data["verdict"] == "not-covered"


def test_rule_that_refuses_has_no_plan() -> None:
    ran = kvproof("plan", REGRESSIONS / "hisparse-reverse-geometry.toml", "--fault", "suffix-selection")
    assert ran.status == 1
    assert "refused by suffix-selection" in ran.err


def test_plan_of_the_example_is_the_plan_by_hand() -> None:
    ran = kvproof("plan", PADDED_TAIL)
    assert ran.data == PLAN
    assert kvproof("plan", PADDED_TAIL, "--json").out == ran.out


@pytest.mark.parametrize("option", [[], ["--descriptors"], ["--route", "gpu"], ["--fault", "fold-by-base"], ["--json"]])
def test_case_without_request_has_no_plan(option: list[str]) -> None:
    case = REGRESSIONS / "v41-aliased-groups.toml"
    ran = kvproof("plan", case, *option)
    assert ran.status == 2
    assert ran.err == f"{case}: case v41-aliased-groups has no [request]: there is nothing to plan\n"
