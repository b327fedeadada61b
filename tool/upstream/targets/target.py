# SPDX-License-Identifier: Apache-2.0
"""What is put under test: a Python, and the source tree that it is to import vLLM from."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import msgspec

from kvproof.failure import Failure
from kvproof.places import is_folder

PYTHON_SECONDS = 60.0
"""How long a Python may take to say whether it has vLLM."""

_FIND = "import importlib.util as u, importlib.metadata as m; print('found' if u.find_spec('vllm') else 'none')"


class Target(msgspec.Struct, frozen=True):
    """``tree`` None: the Python has vLLM installed. ``label`` names the target in reports."""

    label: str
    python: Path
    tree: Path | None = None


def release_target(version: str) -> Target:
    """A release from the package registry, in an environment of its own; both are fetched if need be.

    Raises Failure if the registry has no such release, or cannot be reached.
    """
    from kvproof.upstream.targets.environment import environment
    from kvproof.upstream.targets.fetch import fetch_release

    tree = fetch_release(version)
    return Target(f"vllm {version}", environment(), tree)


def source_target(path: Path) -> Target:
    """A checkout of vLLM, with the same environment as the releases. Raises Failure if it is none."""
    from kvproof.upstream.targets.environment import environment

    tree = checked_source(path)
    return Target(f"vllm in {path}", environment(), tree)


def checked_source(path: Path) -> Path:
    """The absolute path of a checkout of vLLM. Raises Failure if it is none."""
    if not is_folder(path):
        raise Failure(f"{path} is no folder: a checkout of vLLM was expected, or an unpacked release")
    if not (path / "vllm" / "__init__.py").is_file():
        raise Failure(f"{path} has no vllm/__init__.py: it is no checkout of vLLM, nor an unpacked release")
    return path.absolute()


def python_target(path: Path) -> Target:
    """A virtual environment (or its Python) where vLLM is installed. Raises Failure if there is none in it."""
    python = _interpreter(path)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    try:
        done = subprocess.run(
            [str(python), "-P", "-c", _FIND],
            check=False,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=PYTHON_SECONDS,
            env=environment,
        )
    except OSError as error:
        raise Failure(f"{python} cannot be run: {error.strerror or error}") from None
    except subprocess.TimeoutExpired:
        raise Failure(f"{python} did not say within {PYTHON_SECONDS:g} s whether it has vllm") from None
    if done.returncode or done.stdout.split()[-1:] not in (["found"], ["none"]):
        raise Failure(f"{python} is no Python that works (3.11 or newer): {_end(done.stderr) or done.returncode}")
    if done.stdout.split()[-1] == "none":
        raise Failure(f"{python} has no vllm installed")
    return Target(f"vllm of {path}", python)


def _interpreter(path: Path) -> Path:
    if not is_folder(path):
        return path.absolute()
    python = path.absolute() / "bin" / "python"
    if not python.is_file():
        raise Failure(f"{path} has no bin/python: it is no Python environment")
    return python


def _end(text: str) -> str:
    return " ".join(text.split())[-300:]
