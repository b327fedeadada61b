# SPDX-License-Identifier: Apache-2.0
"""A case as the TOML file it would be read from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from kvproof.output import clean
from kvproof.spec.vocabulary import Case

BARE = re.compile(r"[A-Za-z0-9_-]+")
ROWS = ("storages", "pools", "groups", "layers")
"""Lists of a worker that stand one item a line."""


def write_case(case: Case, remarks: Iterable[str] = ()) -> str:
    """The case file. ``load_case`` reads the same case back. Remarks stand at its head as comments, a line each."""
    raw = msgspec.to_builtins(case)
    lines = ["# SPDX-License-Identifier: Apache-2.0", *(f"# {clean(line)}".rstrip() for line in remarks)]
    lines += [f"{key} = {value(raw[key])}" for key in ("format", "name", "title", "source") if key in raw]
    if "request" in raw:
        lines += ["", "[request]", *(f"{key} = {value(item)}" for key, item in raw["request"].items())]
    for worker in raw["worker"]:
        lines += ["", "[[worker]]"]
        for key, item in worker.items():
            lines += _rows(key, item) if key in ROWS else [f"{key} = {value(item)}"]
    expect = raw.get("expect", {})
    plain = {key: item for key, item in expect.items() if not isinstance(item, dict)}
    if plain:
        lines += ["", "[expect]", *(f"{key} = {value(item)}" for key, item in plain.items())]
    for key, item in expect.items():
        if isinstance(item, dict):
            lines += ["", f"[expect.{key}]", *(f"{name(inner)} = {value(it)}" for inner, it in item.items())]
    return "\n".join(lines) + "\n"


def save_case(path: Path, case: Case, remarks: Iterable[str]) -> None:
    """Write the case file, and make its folder if there is none. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(write_case(case, remarks), encoding="utf-8")


def _rows(key: str, items: list[Any]) -> list[str]:
    return [f"{key} = [", *(f"  {value(item)}," for item in items), "]"]


def value(item: Any) -> str:
    """A value on one line."""
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, int):
        return str(item)
    if isinstance(item, str):
        return string(item)
    if isinstance(item, dict):
        inside = ", ".join(f"{name(key)} = {value(inner)}" for key, inner in item.items())
        return f"{{ {inside} }}" if inside else "{}"
    return f"[{', '.join(value(inner) for inner in item)}]"


def name(key: str) -> str:
    """A key, quoted where it must be."""
    return key if BARE.fullmatch(key) else string(key)


def string(text: str) -> str:
    """A basic string: JSON's escapes, and one more for DEL, which TOML forbids and JSON does not."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
