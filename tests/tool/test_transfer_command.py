# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import PADDED_TAIL, REGRESSIONS, kvproof

from kvproof.reference.faults.registry import FAULTS
from kvproof.spec.place import Place

pytest.importorskip("torch")
pytest.importorskip("nixl")


def test_builtin_cases_move_and_skips_are_told() -> None:
    ran = kvproof("transfer", "--json")
    assert ran.status == 0
    data = ran.data
    assert (data["format"], data["verdict"]) == (1, "passed")
    for entry in data["cases"]:
        if entry["outcome"] == "skipped":
            assert entry["reason"]
        else:
            assert entry["outcome"] == "verified"
            assert entry["mismatching_bytes"] == 0
    padded = next(entry for entry in data["cases"] if entry["case"] == "hisparse-padded-tail")
    numbers = [padded[f"{name}_bytes"] for name in ("moved", "zeroed", "untouched", "verified")]
    assert numbers == [576, 0, 19200 - 576, 38400]


@pytest.mark.parametrize("fault", FAULTS)
def test_corruption_in_memory_is_what_the_judge_predicts(fault: str) -> None:
    ran = kvproof("transfer", "--fault", fault, "--json")
    assert ran.status == 1
    outcomes = {entry["outcome"] for entry in ran.data["cases"]}
    assert "corrupt" in outcomes
    assert outcomes <= {"corrupt", "hazard", "verified", "skipped", "refused"}
    for entry in ran.data["cases"]:
        assert entry.get("predicted", True)
        # Descriptors named twice are not even tried: which copy of two lasts is nothing to predict.
        assert entry["outcome"] != "refused" or entry["error"].endswith("is listed twice")


def test_words_of_what_lies_in_memory() -> None:
    ran = kvproof("transfer", "--fault", "suffix-selection", PADDED_TAIL)
    assert ran.status == 1
    first = ran.lines[0]
    assert "in memory, D0, layers.0.attn, page 30: tokens 0–63 hold the bytes of P0 page 21" in first
    assert "which holds tokens 64–127" in first
    truncated = kvproof("transfer", "--fault", "fold-by-base", REGRESSIONS / "v41-flash-window-and-ring.toml")
    assert "the ring state (13,760 bytes from 19008 on) still holds what was there before" in truncated.lines[0]
    pages = kvproof("transfer", "--fault", "suffix-selection", REGRESSIONS / "hisparse-both-padded.toml")
    assert "but the page does not end zero" in pages.lines[0]


def test_memory_that_is_not_as_predicted_is_a_fault_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    import msgspec

    from kvproof import moving

    lawful = moving.judge

    def sees_too_much(*arguments: Any) -> Any:
        return msgspec.structs.replace(lawful(*arguments), corrupt=(Place("D0/host", 1920, 64),))

    monkeypatch.setattr(moving, "judge", sees_too_much)
    ran = kvproof("transfer", PADDED_TAIL)
    assert ran.status == 70
    assert "are right in memory, but the judge predicts them wrong" in ran.out


def test_refusals_are_skipped_with_a_reason() -> None:
    ran = kvproof("transfer", REGRESSIONS / "refused-layer-absent.toml")
    assert ran.status == 0
    assert ran.lines[0].startswith("skip  refused-layer-absent: refused: layer layers.1.attn")


def test_transfer_that_does_not_finish_is_exit_3(monkeypatch: pytest.MonkeyPatch) -> None:
    from kvproof.gpu_impl import transfer
    from kvproof.gpu_impl.errors import TransferUnfinished

    def stuck(jobs: Iterator[object], **_: object) -> Iterator[TransferUnfinished]:
        for _job in jobs:
            yield TransferUnfinished("reading: past its deadline")

    monkeypatch.setattr(transfer, "run_many", stuck)
    ran = kvproof("transfer", PADDED_TAIL)
    assert ran.status == 3
    assert ran.err == f"{PADDED_TAIL}: the transfer did not finish: reading: past its deadline\n"


def test_more_memory_than_there_is_is_exit_3(monkeypatch: pytest.MonkeyPatch) -> None:
    from kvproof import moving

    monkeypatch.setattr(moving, "free_memory", lambda: 1)
    ran = kvproof("transfer", PADDED_TAIL)
    assert ran.status == 3
    words = "the storages hold 38,400 bytes, this machine has 1 byte of free memory"
    assert ran.err == f"{PADDED_TAIL}: the transfer did not finish: {words}\n"


def test_case_without_request_is_skipped() -> None:
    ran = kvproof("transfer", REGRESSIONS / "v41-aliased-groups.toml")
    words = "skip  v41-aliased-groups: the case has no [request]: there is nothing to move"
    assert (ran.status, ran.lines[0]) == (0, words)


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "nixl" else find(name, *rest))
    ran = kvproof("transfer", PADDED_TAIL)
    assert ran.status == 2
    assert "pip install 'kvproof[transfer]'" in ran.err
    assert ran.err.count("\n") == 1


def test_case_of_a_users_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(PADDED_TAIL.read_bytes())
    assert kvproof("transfer", path, "--device", "cpu").status == 0
