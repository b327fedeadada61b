# SPDX-License-Identifier: Apache-2.0
"""Plan files and descriptor lists as text: JSON with one copy, zero or transfer a line."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from kvproof.spec.descriptors import DescriptorFile
from kvproof.spec.plan import PlanFile

SHOWN_EMPTY = {PlanFile: ("copies", "zeroes"), DescriptorFile: ("transfers", "zeroes")}


def file_text(file: PlanFile | DescriptorFile) -> str:
    """The file as JSON."""
    data: dict[str, Any] = msgspec.to_builtins(file)
    for key in SHOWN_EMPTY[type(file)]:
        data.setdefault(key, [])
    entries = [f"{json.dumps(key)}: {_value(value)}" for key, value in data.items()]
    return "{" + ",\n ".join(entries) + "}"


def _value(value: Any) -> str:
    if not isinstance(value, list | tuple) or not value:
        return json.dumps(value)
    return "[\n  " + ",\n  ".join(json.dumps(item) for item in value) + "\n ]"
