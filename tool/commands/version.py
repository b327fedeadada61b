# SPDX-License-Identifier: Apache-2.0
"""``kvproof --version``."""

from __future__ import annotations

from kvproof.exits import Exit
from kvproof.options import Json
from kvproof.output import Output
from kvproof.versions import versions


def command(*, json: Json = False) -> int:
    """The versions of kvproof, Python, the solvers, NIXL and torch."""
    out = Output(json)
    found = versions()
    for name, version in found.items():
        out.line(f"{name} {version}")
    out.answer("version", Exit.OK, {"versions": found})
    return Exit.OK
