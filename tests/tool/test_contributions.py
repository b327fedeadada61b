# SPDX-License-Identifier: Apache-2.0
"""What CONTRIBUTING.md asks of a new case and a new fault."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from commands import REGRESSIONS

from kvproof.reference.faults.registry import FAULTS

ROOT = Path(__file__).parent.parent.parent
CASES = sorted(REGRESSIONS.glob("*.toml"))


def expectations(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8")).get("expect", {})
    return found


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_built_in_case_is_named_like_its_file_and_expects_a_verdict(path: Path) -> None:
    case = tomllib.loads(path.read_text(encoding="utf-8"))
    assert case["name"] == path.stem
    assert case.get("title"), f"{path.name}: a built-in case needs a title"
    assert "verdict" in expectations(path), f"{path.name}: a built-in case needs [expect] with a verdict"


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_described(fault: str) -> None:
    bugs = (ROOT / "docs" / "bugs.md").read_text(encoding="utf-8")
    assert f"`{fault}`" in bugs, f"docs/bugs.md has no line for {fault}"
    for source in FAULTS[fault].sources:
        assert f"[{source}]: https://" in bugs, f"docs/bugs.md does not link {source}"


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_has_cases_in_which_it_goes_wrong_and_right(fault: str) -> None:
    listed = [faults[fault] for path in CASES if fault in (faults := expectations(path).get("faults", {}))]
    assert any(isinstance(laws, list) and laws for laws in listed), f"no case in which {fault} breaks a law"
    assert [] in listed, f"no case in which {fault} is right"
