# SPDX-License-Identifier: Apache-2.0
"""The Python environments that targets run in: one for all releases and checkouts, one for whole engines.

Each is made once, in the cache.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from typing import NamedTuple

from kvproof.failure import Failure
from kvproof.output import remark
from kvproof.upstream.targets import cache, pip

REQUIREMENTS = Path(__file__).parents[1] / "requirements.txt"
"""What releases and checkouts run with, and nothing else."""
INSTALL_SECONDS = 3600.0


class Recipe(NamedTuple):
    """What an environment is made of. ``name``: of its folder in the cache. ``size``: what there is to download."""

    name: str
    requirements: Path
    what: str
    size: str


RELEASES = Recipe("environment", REQUIREMENTS, "vLLM", "0.4 GB")
ENGINES = Recipe("engines", Path(__file__).parents[1] / "engine_requirements.txt", "vLLM's engines on CPU", "1.0 GB")

_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
"""Where torch has builds without CUDA: a tenth of the size."""


def environment(recipe: Recipe = RELEASES) -> Path:
    """The environment's Python; made first if there is none. Raises Failure.

    pip's own configuration holds. ``TORCH_INDEX`` is an index to take torch from, as in the Makefile.
    """
    folder = cache.entry(f"{recipe.name}-{_key(recipe)}", lambda folder: _build(folder, recipe))
    python = folder / "bin" / "python"
    if not python.exists():
        raise Failure(f"{python} is gone, with the Python that it was made from: delete {folder}")
    return python


def _key(recipe: Recipe) -> str:
    """The same for the same packages and the same Python."""
    parts = (recipe.requirements.read_text(encoding="utf-8"), sys.version, sys.base_prefix, os.uname().machine)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _build(folder: Path, recipe: Recipe) -> None:
    doing = f"making the environment for {recipe.what}"
    remark(f"kvproof: {doing}: about {recipe.size} to download, once")
    pip.run(Path(sys.executable), "venv", str(folder), doing=doing, seconds=INSTALL_SECONDS)
    python = folder / "bin" / "python"

    def install(*words: str) -> None:
        common = ("install", "--no-input", "--only-binary", ":all:")
        pip.run(python, "pip", *common, *words, doing=doing, seconds=INSTALL_SECONDS)

    own_index = os.environ.get("TORCH_INDEX")
    index = ("--index-url", own_index) if own_index else ("--extra-index-url", _CPU_INDEX)
    lines = recipe.requirements.read_text(encoding="utf-8").splitlines()
    torch = next(line for line in lines if line.startswith("torch=="))
    install("--no-deps", *index, torch)
    install("--no-deps", "--requirement", str(recipe.requirements))
    # Where only a build with CUDA was to be had, it needs CUDA's libraries. Otherwise there is nothing to do.
    install("--constraint", str(recipe.requirements), torch)
