# SPDX-License-Identifier: Apache-2.0
"""Concrete worlds in which hypotheses hold. The geometries are those of the padded-tail cases (vllm#57077)."""

from __future__ import annotations

from kvproof.proofs.source import Numbers, listed

_SHARED = {
    "page_bytes": 64,
    "states_per_page": 64,
    "tokens_per_state": 1,
    "part.start": 0,
    "part.first": 0,
    "part.count": 1,
    "part.unit_bytes": 1,
    "tokens": 160,
    "window": 100,
    "retained": 0,
    "cell.unit": 0,
    "cell.state": 100,
    "ordinal": 1,
    "other": 2,
    "index": 0,
    "target.null": 0,
}


def _side(name: str, storage: int, blocks: int, pages_per_block: int, count: int) -> dict[str, int]:
    numbers = {
        "storage": storage,
        "offset": 0,
        "stride": 64,
        "blocks": blocks,
        "pages_per_block": pages_per_block,
        "first": 0,
        "count": count,
        "cached_tokens": 0,
        "storage_bytes": blocks * pages_per_block * 64,
        "base": 2**40,
        "memory": 0,
    }
    return {f"{name}.{field}": number for field, number in numbers.items()}


_RIVAL = {
    **_side("rival", 1, 100, 1, 3),
    "rival.offset": 6400,
    "rival.page_bytes": 64,
    "rival.states_per_page": 64,
    "rival.tokens_per_state": 1,
    "rival.part.start": 0,
    "rival.part.first": 0,
    "rival.part.count": 1,
    "rival.part.unit_bytes": 1,
}

PADDED_TAIL = Numbers(
    {**_SHARED, **_side("source", 0, 50, 2, 2), **_side("target", 1, 100, 1, 3), **_RIVAL},
    {
        "source.block": listed((10, 11)),
        "target.block": listed((30, 31, 32)),
        "rival.block": listed((40, 41, 42)),
    },
)
"""P's blocks of two pages hold pages 20 21 22 and an unused one; D lists one page a block."""

REVERSE = Numbers(
    {**_SHARED, **_side("source", 0, 100, 1, 3), **_side("target", 1, 50, 2, 2), **_RIVAL, "rival.pages_per_block": 2},
    {
        "source.block": listed((20, 21, 22)),
        "target.block": listed((10, 11)),
        "rival.block": listed((12, 13)),
    },
)
"""D's blocks of two pages: page ordinal 3 is past the prompt."""


def uneven(region: int) -> int:
    """Page counts of a list of regions, as if groups had one or two pages a block."""
    return 100 if region % 2 == 0 else 50


def uneven_start(region: int) -> int:
    """First descriptor id of a region of that list."""
    return sum(uneven(earlier) for earlier in range(region))
