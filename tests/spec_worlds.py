# SPDX-License-Identifier: Apache-2.0
"""A small well-formed world as plain data, to be changed in one place and then built."""

from copy import deepcopy
from typing import Any

import msgspec

from kvproof.spec.vocabulary import Case, Raw

GONE = object()
"""As a value: take the key away."""


def worker(name: str, role: str) -> Raw:
    """Two attention layers in rows of 16 bytes (pages of two tokens, two a block), one ssm layer in a storage alone."""
    return {
        "name": name,
        "role": role,
        "storages": [
            {"name": "main", "bytes": 160, "memory": "VRAM"},
            {"name": "state", "bytes": 40, "memory": "VRAM"},
        ],
        "pools": [{"name": "device", "blocks": 5}, {"name": "spare", "blocks": 5}],
        "groups": [
            {"name": "kv", "kind": "attention", "pool": "device", "block_tokens": 4, "pages_per_block": 2},
            {"name": "ssm", "kind": "ssm", "pool": "device"},
        ],
        "layers": [
            {
                "name": "a", "group": "kv", "storage": "main", "offset": 0, "page_bytes": 8, "page_stride": 16,
                "parts": [{"name": "heads", "units": 2, "count": 2, "unit_bytes": 2}],
            },
            {"name": "b", "group": "kv", "storage": "main", "offset": 8, "page_bytes": 8, "page_stride": 16},
            {"name": "s", "group": "ssm", "storage": "state", "offset": 0, "page_bytes": 8, "page_stride": 8},
        ],
        "tables": {"kv": {"blocks": [1, 2]}, "ssm": {"blocks": [3]}},
    }  # fmt: skip


def two_workers(tokens: int = 6) -> Raw:
    """P0 and D0, alike."""
    workers = [worker("P0", "producer"), worker("D0", "consumer")]
    return {"format": 1, "name": "two", "request": {"tokens": tokens}, "worker": workers}


def changed(raw: Raw, changes: dict[str, Any]) -> Raw:
    """A copy with other values at these paths: ``worker.1.layers.0.offset``; a list grows by one past its end."""
    raw = deepcopy(raw)
    for path, value in changes.items():
        *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
        place: Any = raw
        for step in steps:
            place = place[step]
        if value is GONE:
            del place[last]
        elif isinstance(place, list) and last == len(place):
            place.append(deepcopy(value))
        else:
            place[last] = deepcopy(value)
    return raw


def built(raw: Raw) -> Case:
    """The raw data as a case, decoded but not checked."""
    return msgspec.convert(raw, Case)
