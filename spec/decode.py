# SPDX-License-Identifier: Apache-2.0
"""Files into structs, strictly: unknown or duplicate keys, wrong types and numbers out of range are errors.

An error names the path, the value found there and what is allowed (``BadInput``); nothing else is raised for what a
file contains.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any, TypeVar

import msgspec

from kvproof.spec.descriptors import DescriptorFile
from kvproof.spec.plan import PlanFile
from kvproof.spec.vocabulary import Case, Raw

CASE_BYTES_LIMIT = 4 * 2**20
PLAN_BYTES_LIMIT = 256 * 2**20
VALUE_WORDS_LIMIT = 60

T = TypeVar("T")


class BadInput(Exception):
    """What a file or an argument says cannot be used. The text is one line for the user."""


def decode_case(data: bytes) -> Case:
    """Decode a case from TOML. Only its form is checked here; see ``kvproof.spec.validate``."""
    text = _text(data, CASE_BYTES_LIMIT, "a case")
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"not TOML: {error}") from None
    except (ValueError, RecursionError) as error:
        # tomllib passes on int()'s own complaint about numbers of thousands of digits, and about deep nesting.
        raise BadInput(f"not TOML that can be read: {_brief(str(error))}") from None
    return _convert(raw, Case, "case")


def decode_plan(data: bytes) -> PlanFile | DescriptorFile:
    """Decode a plan file or descriptor lists from JSON: the one with ``transfers`` is descriptor lists."""
    raw = decode_json(data)
    if "transfers" in raw:
        return _convert(raw, DescriptorFile, "descriptor lists")
    return _convert(raw, PlanFile, "plan")


def decode_json(data: bytes) -> Raw:
    """Decode a JSON object; a key given twice is an error."""
    text = _text(data, PLAN_BYTES_LIMIT, "a plan")
    try:
        raw = json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
    except BadInput:
        raise
    except RecursionError:
        raise BadInput("not JSON that can be read: nested too deeply") from None
    except ValueError as error:
        raise BadInput(f"not JSON: {_brief(str(error))}") from None
    if not isinstance(raw, dict):
        raise BadInput(f"expected a JSON object, found {_value(raw)}")
    return raw


def _text(data: bytes, limit: int, what: str) -> str:
    if len(data) > limit:
        raise BadInput(f"{len(data)} bytes: {what} may have at most {limit}")
    if not data.strip():
        raise BadInput("the file is empty")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"not UTF-8 text: byte {data[error.start]:#04x} at offset {error.start}") from None
    if "\0" in text:
        raise BadInput(f"not text: a NUL character at offset {text.index(chr(0))}")
    return text


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise BadInput(f"the key {_value(key)} is given twice in one object")
        result[key] = value
    return result


def _constant(name: str) -> Any:
    raise BadInput(f"{name} is not a number that JSON allows")


def _convert(raw: Raw, kind: type[T], what: str) -> T:
    try:
        return msgspec.convert(raw, kind, strict=True)
    except msgspec.ValidationError as error:
        raise BadInput(_words(str(error), raw, what)) from None


PATH = re.compile(r"^(?P<problem>.*?)(?: - at `(?P<path>[^`]*)`)?$", re.DOTALL)


def _words(message: str, raw: Raw, what: str) -> str:
    """msgspec's message as path, value found, what is allowed."""
    match = PATH.match(message)
    problem, path = (match["problem"], match["path"] or "$") if match else (message, "$")
    problem = problem.replace("`", "")
    place = path.removeprefix("$").lstrip(".") or what
    if problem.startswith("Object missing required field"):
        return f"{place}: the key {problem.split()[-1]} is missing"
    if problem.startswith("Object contains unknown field"):
        return f"{place}: unknown key {problem.split(maxsplit=4)[-1]}"
    found = _look_up(raw, path)
    return f"{place}: {_lower(problem)}" + (f", found {_value(found)}" if found is not MISSING else "")


MISSING = object()
STEP = re.compile(r"\.(?P<key>[^.\[\]]+)|\[(?P<index>\d+|\.\.\.)\]")


def _look_up(raw: Any, path: str) -> Any:
    """The value at msgspec's path; ``[...]`` (any key of a mapping) cannot be followed."""
    for step in STEP.finditer(path):
        try:
            raw = raw[step["key"]] if step["key"] is not None else raw[int(step["index"])]
        except (KeyError, IndexError, TypeError, ValueError):
            return MISSING
    return raw


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and abs(value) >= 10**30:
        return f"an integer of {value.bit_length()} bits"
    return _brief(json.dumps(value, default=str, ensure_ascii=True) if not isinstance(value, float) else repr(value))


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _brief(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= VALUE_WORDS_LIMIT else text[: VALUE_WORDS_LIMIT - 1] + "…"
