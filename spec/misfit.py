# SPDX-License-Identifier: Apache-2.0
"""Where a decoded file does not fit its struct: the path, the value found there and what is allowed, in one line.

msgspec says what is wrong and roughly where; the exact key of a mapping, the value and the allowed words are looked up
here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

WORDS_LIMIT = 60
MISSING = object()

MESSAGE = re.compile(r"(?P<problem>.*?)(?: - at (?P<key>`key` in )?`(?P<path>[^`]*)`)?", re.DOTALL)
STEP = re.compile(r"\.(?P<field>[^.\[\]]+)|\[(?P<index>\d+|\.\.\.)\]")


def misfit(message: str, raw: Any, kind: Any, what: str) -> str:
    """msgspec's message about ``raw``, which should be a ``kind``, for the user."""
    match = MESSAGE.fullmatch(message)
    problem, path = (match["problem"], match["path"] or "$") if match else (message, "$")
    place, kind, raw = _follow(path, raw, kind)
    if match and match["key"]:
        raw, kind = _misfit_key(raw, kind)
        place = f"{place or what}, a key"
    place = place or what
    if problem.startswith("Object missing required field"):
        return f"{place}: the key {problem.split()[-1].strip('`')} is missing"
    if problem.startswith("Object contains unknown field"):
        known = _fields(kind)
        key = next((key for key in raw if key not in known), "") if isinstance(raw, dict) else ""
        return f"{place}: unknown key {bare(key)}; allowed: {', '.join(known)}"
    if problem.startswith("Invalid enum value"):
        problem = f"expected {_one_of(kind)}"
    if problem.startswith("Expected `str` matching regex"):
        problem = "expected str without control characters"
    problem = problem.replace("`", "")
    found = f", found {value_words(raw)}" if raw is not MISSING else ""
    return f"{place}: {problem[:1].lower()}{problem[1:]}{found}"


def value_words(value: Any) -> str:
    """A value of a file, in few characters of one line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and abs(value) >= 10**30:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, float):
        return repr(value)
    try:
        return brief(json.dumps(value, default=str, ensure_ascii=True))
    except (RecursionError, ValueError):
        # Nested too deeply to be shown, or with a number of too many digits.
        return "an array" if isinstance(value, list) else "an object"


def brief(text: str) -> str:
    """At most WORDS_LIMIT characters on one line."""
    text = " ".join(text.split())
    return text if len(text) <= WORDS_LIMIT else text[: WORDS_LIMIT - 1] + "…"


def bare(key: str) -> str:
    """A key as it would be written in TOML: quoted only where it must be."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]{1,40}", key) else value_words(key)


def _follow(path: str, raw: Any, kind: Any) -> tuple[str, Any, Any]:
    """What lies at msgspec's path, and its type; ``[...]`` is the first entry of a mapping that does not fit."""
    place = ""
    for step in STEP.finditer(path):
        kind = _alternative(kind, raw)
        if step["field"] is not None:
            key, kind = step["field"], _fields(kind).get(step["field"])
            place += f".{key}" if place else key
        elif step["index"] == "...":
            kind = (get_args(kind) or (None, None))[1]
            key = next((key for key, value in raw.items() if not _fits(value, kind)), "")
            place += f".{bare(key)}" if place else bare(key)
        else:
            key = int(step["index"])
            items = get_args(kind)
            kind = items[0] if items[1:] == (...,) else (*items, *[None] * (key + 1))[key]
            place += f"[{key}]"
        try:
            raw = raw[key]
        except (KeyError, IndexError, TypeError):
            return place, kind, MISSING
    return place, _alternative(kind, raw), raw


def _misfit_key(raw: Any, kind: Any) -> tuple[Any, Any]:
    """The first key of a mapping that does not fit, and the type of its keys."""
    key_kind = (get_args(kind) or (None,))[0]
    keys: Iterable[Any] = raw if isinstance(raw, dict) else ()
    return next((key for key in keys if not _fits(key, key_kind)), MISSING), key_kind


def _fits(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError:
        return False
    return True


def _fields(kind: Any) -> dict[str, Any]:
    if not isinstance(kind, type) or not issubclass(kind, msgspec.Struct):
        return {}
    return {field.encode_name: field.type for field in msgspec.structs.fields(kind)}


def _alternative(kind: Any, raw: Any) -> Any:
    """The type without its limits; of several the one for such a value."""
    if get_origin(kind) is Annotated:
        return _alternative(get_args(kind)[0], raw)
    if get_origin(kind) not in {Union, UnionType}:
        return kind
    kinds = [_alternative(one, raw) for one in get_args(kind) if one is not NoneType]
    for one in kinds:
        if (get_origin(one) is tuple) == isinstance(raw, list):
            return one
    return kinds[0]


def _one_of(kind: Any) -> str:
    allowed = [json.dumps(value) for value in get_args(kind)] if get_origin(kind) is Literal else []
    return f"one of {', '.join(allowed)}" if len(allowed) > 1 else "".join(allowed) or "another value"
