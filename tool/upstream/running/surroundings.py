# SPDX-License-Identifier: Apache-2.0
"""The environment variables that a target's process is given: the user's, less what would change what it computes."""

from __future__ import annotations

import os
from pathlib import Path

from kvproof.upstream.targets.cache import cache_folder
from kvproof.upstream.targets.target import Target

_DROPPED = ("PYTHON", "VLLM_", "MC_", "MOONCAKE_")
"""Beginnings of names that configure the target or its Python: an answer must not depend on whose shell it was."""

_DEFAULTS = {
    "NIXL_LOG_LEVEL": "ERROR",
    "UCX_LOG_LEVEL": "error",
    "UCX_WARN_UNUSED_ENV_VARS": "n",
}
_SET = {
    "VLLM_TARGET_DEVICE": "cpu",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_SSM_CONV_STATE_LAYOUT": "DS",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "OMP_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
}


def surroundings(target: Target, folder: Path) -> dict[str, str]:
    """Environment variables for a process of the target. What it keeps or caches for itself goes into ``folder``."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_DROPPED)}
    own = {"TMPDIR": str(folder), "HF_HOME": str(folder / "hf")}
    for name in ("VLLM_CACHE_ROOT", "VLLM_CONFIG_ROOT", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        own[name] = str(folder / name.lower())
    if target.tree is not None:
        own["PYTHONPATH"] = str(target.tree)
    if target.tree is not None and not target.tree.is_relative_to(cache_folder()):
        # Somebody's checkout: nothing is written into it, not even bytecode.
        own["PYTHONPYCACHEPREFIX"] = str(cache_folder() / "bytecode")
    return {**_DEFAULTS, **kept, **_SET, **own}
