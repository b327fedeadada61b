# SPDX-License-Identifier: Apache-2.0
"""All claims. Every file of lemmas/, theorems/ and refutations/ is read; none can be left out by forgetting it."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from kvproof.proofs.claim import Claim

FOLDERS = ("lemmas", "theorems", "refutations")

COUNT = 87
"""How many claims there are. To be raised by hand with each new one, so that a lost one is noticed."""


class Incomplete(RuntimeError):
    """A claim is missing, doubled, or did not run."""


@cache
def claims() -> tuple[Claim[Any], ...]:
    """Every claim, ordered by folder kind and id."""
    found = [claim for module in modules() for claim in _claims_of(module)]
    found.sort(key=lambda claim: (claim.id[0] == "R", claim.id))
    ids = [claim.id for claim in found]
    if len(set(ids)) != len(ids):
        raise Incomplete(f"an id is used twice: {sorted(id for id in set(ids) if ids.count(id) > 1)}")
    if len(ids) != COUNT:
        raise Incomplete(f"{len(ids)} claims are there, not {COUNT}")
    return tuple(found)


def modules() -> tuple[str, ...]:
    """Names of all modules that hold claims."""
    return tuple(
        f"kvproof.proofs.{folder}.{module.name}"
        for folder in FOLDERS
        for module in iter_modules(import_module(f"kvproof.proofs.{folder}").__path__)
    )


def file_of(claim: Claim[Any]) -> str:
    """The file of a claim, from the root of the repository."""
    return type(claim).__module__.removeprefix("kvproof.").replace(".", "/") + ".py"


def _claims_of(module: str) -> list[Claim[Any]]:
    """One of each class of the module that has an id."""
    members = vars(import_module(module)).values()
    classes = [member for member in members if isinstance(member, type) and issubclass(member, Claim)]
    return [each() for each in classes if each.__module__ == module and "id" in vars(each)]
