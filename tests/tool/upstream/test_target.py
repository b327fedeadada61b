# SPDX-License-Identifier: Apache-2.0
"""What users may name as a target, and what is said of what they may not."""

import sys
from pathlib import Path

import pytest

from kvproof.failure import Failure
from kvproof.upstream.running.surroundings import surroundings
from kvproof.upstream.targets import target
from kvproof.upstream.targets.target import Target, checked_source, python_target


def test_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "src" / "vllm").mkdir(parents=True)
    (tmp_path / "src" / "vllm" / "__init__.py").touch()
    monkeypatch.chdir(tmp_path)
    assert checked_source(Path("src")) == tmp_path / "src"


def test_no_checkout(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "none", tmp_path / "file"):
        with pytest.raises(Failure, match=rf"{path} is no folder: a checkout of vLLM was expected"):
            checked_source(path)
    with pytest.raises(Failure, match=r"has no vllm/__init__\.py"):
        checked_source(tmp_path)


def environment(folder: Path, script: str) -> Path:
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    return folder


def test_environment_with_vllm(tmp_path: Path) -> None:
    folder = environment(tmp_path / "env", "echo some banner; echo found")
    assert python_target(folder) == Target(f"vllm of {folder}", folder / "bin" / "python")
    assert python_target(folder / "bin" / "python").python == folder / "bin" / "python"


BROKEN = {
    "echo none": "has no vllm installed",
    "echo broken library >&2; exit 3": "is no Python that works .*: broken library",
    "exit 3": "is no Python that works .*: 3",
    "echo hello": "is no Python that works",
    "true": "is no Python that works",
    "sleep 600 & sleep 600": "did not say within 1 s whether it has vllm",
}


@pytest.mark.parametrize("script", BROKEN)
def test_environments_that_will_not_do(script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "PYTHON_SECONDS", 1 if "sleep" in script else 30)
    with pytest.raises(Failure, match=BROKEN[script]):
        python_target(environment(tmp_path / "env", script))


def test_no_environment(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="has no bin/python: it is no Python environment"):
        python_target(tmp_path)
    with pytest.raises(Failure, match="none cannot be run: No such file or directory"):
        python_target(tmp_path / "none")
    (tmp_path / "file").touch()
    with pytest.raises(Failure, match="file cannot be run: Permission denied"):
        python_target(tmp_path / "file")


def test_our_own_python_has_no_vllm() -> None:
    with pytest.raises(Failure, match="has no vllm installed"):
        python_target(Path(sys.executable))


def test_nothing_is_written_into_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVPROOF_CACHE", str(tmp_path / "cache"))
    fetched = surroundings(Target("0.33.0", Path(sys.executable), tmp_path / "cache" / "vllm-0.33.0"), tmp_path)
    checkout = surroundings(Target("mine", Path(sys.executable), tmp_path / "src"), tmp_path)
    assert "PYTHONPYCACHEPREFIX" not in fetched
    assert checkout["PYTHONPYCACHEPREFIX"] == str(tmp_path / "cache" / "bytecode")
