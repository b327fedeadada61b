# SPDX-License-Identifier: Apache-2.0
"""``kvproof faults``: the faulty rules."""

from __future__ import annotations

import inspect
import sys
from typing import Any

from kvproof.exits import Exit
from kvproof.options import Json
from kvproof.output import Output
from kvproof.reference.faults.registry import FAULTS, Fault


def command(*, json: Json = False) -> int:
    """List the faulty rules: rules that once shipped, or were about to.

    A name from this list is what --fault and a case's `expect.faults` take.
    """
    out = Output(json)
    for fault in FAULTS.values():
        out.line(fault.name, "head")
        out.line(f"    {fault.title} ({', '.join(fault.sources)})")
        for line in details(fault):
            out.line(f"    {line}")
    rows = [data(fault) for fault in FAULTS.values()]
    out.answer("faults", Exit.OK, {"faults": rows})
    return Exit.OK


def data(fault: Fault) -> dict[str, Any]:
    """A fault in JSON."""
    return {
        "name": fault.name, "title": fault.title, "sources": list(fault.sources), "words": " ".join(details(fault)),
    }  # fmt: skip


def details(fault: Fault) -> list[str]:
    """What the rule does: the description that stands in its own module."""
    module = sys.modules.get(f"kvproof.reference.faults.{fault.name.replace('-', '_')}")
    return [line for line in (inspect.getdoc(module) or "").splitlines() if line] if module is not None else []
