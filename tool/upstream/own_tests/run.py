# SPDX-License-Identifier: Apache-2.0
"""vLLM's own geometry tests, run in a target with the plugin ``probes/vllm_tests.py`` in front of its workers.

Nothing of the target is changed: its tests run in a folder of links, without their common conftest.py, which asks for
packages that geometry has no use for. A library that a file imports but its geometry does not need has a stand-in.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from kvproof.failure import Failure
from kvproof.output import remark
from kvproof.upstream.own_tests.explained import read_explained
from kvproof.upstream.own_tests.records import read_records
from kvproof.upstream.own_tests.report import TestsReport, report
from kvproof.upstream.running.keeper import Launch
from kvproof.upstream.running.kept import CORES, Kept
from kvproof.upstream.running.process import PROBES
from kvproof.upstream.running.scratch import scratch
from kvproof.upstream.running.surroundings import surroundings
from kvproof.upstream.targets import cache, pip
from kvproof.upstream.targets.target import Target

RUN_SECONDS = 900.0
"""How long the tests of one target may take. They take half a minute on an idle machine."""

FOLDER = "tests/v1/kv_connector/unit"
FILES = ("test_nixl_desc_geometry.py", "test_nixl_connector_hma.py", "test_nixl_connector.py")
"""What pins the geometry of NixlConnector."""

PYTEST = ("pytest==9.2.0", "iniconfig==2.3.1", "pluggy==1.7.0", "packaging==26.4", "Pygments==2.21.0")
"""What runs them, beside the target's environment."""

OPTIONS = ("-q", "-p", "no:cacheprovider", "-p", "vllm_tests", "-W", "ignore", "-m", "cpu_test", "--tb=short")

INSTALL_SECONDS = 600.0

CAPTURED = "captured.jsonl"
"""The file that the plugin writes."""

_SHOWN = 600
_SOME_FAILED = 1
_NONE_FOUND = 5

_INI = """[pytest]
addopts = --strict-config
markers =
    cpu_test: needs no GPU
    asyncio: unused here
    distributed: unused here
    optional: unused here
    skip_global_cleanup: unused here
    slow_test: unused here
"""

_MODEL = {
    "architectures": ["OPTForCausalLM"],
    "model_type": "opt",
    "hidden_size": 768,
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "ffn_dim": 3072,
    "max_position_embeddings": 2048,
    "vocab_size": 50272,
    "word_embed_proj_dim": 768,
    "torch_dtype": "float16",
}
"""The config of the model that the tests name: they never load it, but its sizes are asked for."""


def run_upstream_tests(target: Target, tests: Path, seconds: float = RUN_SECONDS) -> TestsReport:
    """Run the geometry tests below ``tests`` (the folder that holds ``tests``) in the target, and judge what they pin.

    Raises Failure where there are none, or they do not run to their end within ``seconds``.
    """
    files = [f"{FOLDER}/{name}" for name in FILES if (tests / FOLDER / name).is_file()]
    if not files:
        raise Failure(f"{tests} has none of {', '.join(FILES)} in {FOLDER}")
    runner = pytest_folder(target)
    began = time.monotonic()
    with scratch("kvproof-tests-") as room:
        _set_up(room, tests)
        own = surroundings(target, room)
        paths = (own.get("PYTHONPATH"), room, room / "stand-ins", runner, PROBES)
        own |= {
            "PYTHONPATH": os.pathsep.join(str(path) for path in paths if path),
            "PYTHONDONTWRITEBYTECODE": "1",
            "KVPROOF_CAPTURE": str(room / CAPTURED),
        }
        _run([str(target.python), "-m", "pytest", *OPTIONS, *files], own, room, target.label, seconds)
        return report(target.label, read_records(room, CAPTURED), read_explained(), time.monotonic() - began)


def pytest_folder(target: Target) -> Path:
    """The folder in the cache that has pytest for the target's Python; fetched first if it has none. Raises Failure."""
    return cache.entry("pytest-" + "-".join(PYTEST).replace("==", "-"), lambda folder: _install(target, folder))


def _install(target: Target, folder: Path) -> None:
    remark("kvproof: fetching pytest for the tests of vLLM, once")
    words = ("install", "--no-input", "--no-deps", "--only-binary", ":all:", "--target", str(folder), *PYTEST)
    pip.run(target.python, "pip", *words, doing="fetching pytest", seconds=INSTALL_SECONDS)


def _set_up(room: Path, tests: Path) -> None:
    """The folder that the tests run in."""
    (room / "tests").mkdir()
    for entry in (tests / "tests").iterdir():
        if entry.name not in ("conftest.py", "__pycache__"):
            (room / "tests" / entry.name).symlink_to(entry.absolute())
    (room / "pytest.ini").write_text(_INI, encoding="utf-8")
    model = room / "facebook" / "opt-125m"
    model.mkdir(parents=True)
    (model / "config.json").write_text(json.dumps(_MODEL), encoding="utf-8")
    (room / "stand-ins").mkdir()
    (room / "stand-ins" / "ray.py").write_text("", encoding="utf-8")
    (room / CAPTURED).touch()


def _run(command: list[str], environment: dict[str, str], folder: Path, label: str, seconds: float) -> None:
    """Run pytest under a keeper, so that nothing of it outlives this call. Raises Failure unless it came through."""
    launch: Launch = {
        "command": command,
        "environment": environment,
        "folder": str(folder),
        "keep": [],
        "cores": CORES,
        "litter": str(folder),
    }
    kept, in_time = Kept(launch), False
    try:
        in_time = kept.ended_within(seconds)
    finally:
        said = kept.end()
    words = " ".join(said["log"][-_SHOWN:].split())
    if not in_time:
        raise Failure(f"{label}: its tests did not end within {seconds:g} s; their log ends: {words}")
    if said["failed"] is not None:
        raise Failure(f"{label}: its tests could not be started: {said['failed']}")
    if said["status"] not in (0, _SOME_FAILED):
        what = "none of its tests needs no GPU" if said["status"] == _NONE_FOUND else "its tests do not run"
        raise Failure(f"{label}: {what} (exit status {said['status']}); their log ends: {words}")
