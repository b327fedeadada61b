# SPDX-License-Identifier: Apache-2.0
"""The versions of kvproof and of what its answers rest on, without importing any of it."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

NOT_INSTALLED = "not installed"
DISTRIBUTIONS = {"kvproof": "kvproof", "z3": "z3-solver", "cvc5": "cvc5", "nixl": "nixl", "torch": "torch"}


def versions() -> dict[str, str]:
    """Name to version, kvproof's own first."""
    found = {name: _version(distribution) for name, distribution in DISTRIBUTIONS.items()}
    return {"kvproof": found.pop("kvproof"), "python": platform.python_version(), **found}


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return NOT_INSTALLED
