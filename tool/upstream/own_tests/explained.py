# SPDX-License-Identifier: Apache-2.0
"""The exceptions: tests whose plans break a law here, and why; and what tests say of their requests in their texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec

from kvproof.upstream.own_tests.pin import Reading

FILE = Path(__file__).parents[1] / "explained.toml"


class Explanation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why a plan of these tests may break these laws, and no other. ``because`` is one sentence.

    ``id`` is a heading of docs/findings/upstream-tests.md; ``tests`` and ``plans`` are patterns of their names.
    """

    id: str
    tests: tuple[str, ...]
    laws: tuple[str, ...]
    because: str
    plans: tuple[str, ...] = ("*",)


class Told(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What tests say of their request. ``tokens_param``: the parameter that counts tokens, ``less`` one that is not."""

    tests: tuple[str, ...]
    tokens_param: str | None = None
    less: int = 0
    tokens: int | None = None
    pages: int | None = None
    cached_pages: int | None = None


class Explained(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file."""

    explained: tuple[Explanation, ...] = ()
    told: tuple[Told, ...] = ()

    def why(self, test: str, plan: str, laws: Sequence[str]) -> Explanation | None:
        """The explanation for a plan of a test that breaks these laws, all of them."""
        for one in self.explained:
            if _matches(test, one.tests) and _matches(plan, one.plans) and set(laws) <= set(one.laws):
                return one
        return None

    def reading(self, test: str, params: Mapping[str, Any]) -> Reading:
        """What the test says of its request."""
        for one in self.told:
            if _matches(test, one.tests):
                tokens = one.tokens
                if one.tokens_param is not None and isinstance(params.get(one.tokens_param), int):
                    tokens = params[one.tokens_param] - one.less
                return Reading(tokens=tokens, pages=one.pages, cached_pages=one.cached_pages)
        return Reading()


def read_explained(path: Path = FILE) -> Explained:
    """The exceptions that this version of kvproof knows."""
    return msgspec.toml.decode(path.read_bytes(), type=Explained)


def _matches(test: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(test, pattern) for pattern in patterns)
