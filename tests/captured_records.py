# SPDX-License-Identifier: Apache-2.0
"""Records as the plugin writes them, made by hand: small workers and what they planned."""

from __future__ import annotations

import copy
from typing import Any

import msgspec

from kvproof.upstream.own_tests.records import Record

Raw = dict[str, Any]

TEST = "tests/v1/test_x.py::test_x"


def record(raw: Raw) -> Record:
    """The record of a line."""
    return msgspec.json.decode(msgspec.json.encode({"test": TEST, **raw}), type=Record)


def ended(outcome: str = "passed", **params: Any) -> Record:
    """The end of the test."""
    return record({"event": "outcome", "outcome": outcome, "params": params})


MLA: Raw = {"types": ["MLAAttentionSpec", "AttentionSpec"], "block_size": 4, "page_size_bytes": 32}
RING: Raw = {"types": ["CircularBufferSpec", "AttentionSpec"], "block_size": 2, "page_size_bytes": 48}


def packed() -> Raw:
    """A worker with rows of 64 bytes: two attention layers of 32, and a ring of 48 over the same bytes, 3 blocks."""
    views = [("a.0", 1000), ("a.1", 1032), ("r.0", 1000)]
    own = [
        {"group": 0, "source_blocks": [2, 1, 0], "target_blocks": [0, 1, 2], "source_ids": [2, 1, 0, 5, 4, 3],
         "target_ids": [0, 1, 2, 3, 4, 5]},
        {"group": 1, "source_blocks": [2], "target_blocks": [0], "source_ids": [8], "target_ids": [6]},
    ]  # fmt: skip
    return {
        "event": "registered",
        "worker": 0,
        "engine": {
            "kernel_tokens": 4,
            "pages_per_block": 1,
            "blocks": 3,
            "has_mamba": False,
            "region_bytes": [32, 32, 48],
            "region_groups": [0, 0, 1],
            "groups": [
                {"layers": ["a.0", "a.1"], "host": False, "blocks": 3, "spec": MLA},
                {"layers": ["r.0"], "host": False, "blocks": 3, "spec": RING},
            ],
        },
        "layers": [
            {"name": name, "address": address, "stride": 64, "pages": 3, "storage": 1000, "storage_bytes": 192}
            for name, address in views
        ],
        "rows": [[1000, 32, 0, 64, 3], [1032, 32, 0, 64, 3], [1000, 48, 0, 64, 3]],
        "own": own,
    }


def ids(**changes: Any) -> Raw:
    """Ids of three groups over three regions of 10 pages, the second of which all groups address."""
    return {
        "event": "ids",
        "engine": {"regions": 3, "has_mamba": False, "region_groups": [0, -1, 2], "group_types": ["A", "A", "A"]},
        "given": {
            "block_ids": [[1], [2], [3]],
            "dst_num_blocks": 10,
            "block_size_ratio": None,
            "physical_blocks_per_logical": 1,
            "region_num_blocks": [10, 10, 10],
        },
        "answer": [1, 11, 12, 13, 23],
        **changes,
    }


def trimmed(decode: list[list[int]], prefill: list[list[int]], answer: Any, ratios: tuple[int, int]) -> Raw:
    """Pages of a group of attention and one of states, as they are to be paired."""
    return {
        "event": "trimmed",
        "engine": {"group_types": ["FullAttentionSpec", "MambaSpec"]},
        "given": {
            "decode_block_ids": decode,
            "prefill_block_ids": prefill,
            "decode_physical_per_logical": ratios[0],
            "prefill_physical_per_logical": ratios[1],
        },
        "answer": answer,
    }


def region_pull(**request: Any) -> Raw:
    """160 tokens, pages of 64: the producer has blocks of two pages, the consumer two groups with blocks of one."""
    group = {"host": False, "blocks": 100, "spec": {**MLA, "block_size": 64, "page_size_bytes": 1024}}
    return {
        "event": "read",
        "worker": 0,
        "engine": {
            "kernel_tokens": 64,
            "pages_per_block": 1,
            "has_mamba": False,
            "use_mla": True,
            "region_bytes": [1024, 1024],
            "region_groups": [0, 1],
            "dcp_size": 1,
            "groups": [{"layers": ["host"], **group}, {"layers": ["indexer"], **group}],
            "group_ids": [1, 2],
        },
        "remote": {
            "pages_per_block": 2,
            "kernel_tokens": 64,
            "tp_size": 4,
            "dcp_size": 1,
            "ranks": [0],
            "region_groups": [0, 0],
            "region_pages": [100, 100],
            "own_region_pages": [100, 100],
        },
        "request": {
            "local_blocks": [[30, 31, 32], [40, 41, 42]],
            "remote_blocks": [[10, 11]],
            "cached_blocks": [0, 0, 0],
            "tokens": 160,
            "peer": "P",
            "zeroed_pages": [[], []],
            **request,
        },
        "transfers": [
            {"op": "READ", "local_ids": [30, 31, 32, 140, 141, 142], "remote_ids": [20, 21, 22, 120, 121, 122]}
        ],
    }


def hybrid() -> list[Raw]:
    """A worker with an attention layer and a state over the same memory, its peer of two ranks, and a request of both.

    Blocks of 8 tokens in pages of 4 on the consumer, of 4 tokens in one page on the producer: pages of 64 bytes. The
    state is 16 + 16 + 32 bytes of convolution and 32 more; each rank of the peer has half of it.
    """
    states = {
        "types": ["MambaSpec"], "block_size": 8, "page_size_bytes": 128, "shapes": [[8, 4], [4, 1, 4]],
        "item_bytes": [2, 2], "mamba_type": "GDN_ATTN", "tp_replicated": False,
    }  # fmt: skip
    engine = {
        "kernel_tokens": 4,
        "pages_per_block": 2,
        "blocks": 4,
        "has_mamba": True,
        "use_mla": True,
        "region_bytes": [64],
        "region_groups": [-1],
        "ssm_regions": [0],
        "conv_parts": 3,
        "tp_size": 1,
        "groups": [
            {"layers": ["m"], "host": False, "blocks": 4, "spec": {**MLA, "block_size": 8, "page_size_bytes": 128}},
            {"layers": ["s"], "host": False, "blocks": 4, "spec": states},
        ],
    }
    base, peer = 10_000, 500_000
    local = [[base, 64, 0, 64, 8]]
    halves = [
        [
            *local,
            *([base + start + rank * half, half, 0, 128, 4] for start, half in ((0, 8), (16, 8), (32, 16), (64, 16))),
        ]
        for rank in (0, 1)
    ]
    remote = [
        [peer, 64, 0, 64, 6],
        *([peer + start, half, 0, 64, 6] for start, half in ((0, 8), (8, 8), (16, 16), (32, 16))),
    ]
    # The consumer's blocks 1 (pages 2 and 3) and 3, its state in 0; the producer's blocks 4, 2, its state in 5.
    state_ids = [8, 12, 16, 20], [11, 17, 23, 29]
    return [
        {
            "event": "registered", "worker": 0, "engine": engine,
            "layers": [
                {"name": name, "address": base, "stride": 64, "pages": 8, "storage": base, "storage_bytes": 512}
                for name in ("m", "s")
            ],
            "rows": [*local, [base, 16, 0, 128, 4], [base + 16, 16, 0, 128, 4], [base + 32, 32, 0, 128, 4],
                     [base + 64, 32, 0, 128, 4]],
        },
        {
            "event": "peer", "worker": 0, "rank": [0, 2],
            "peer": {
                "engine_id": "P", "kv_caches_base_addr": [peer], "num_blocks": 6, "block_lens": [64],
                "block_strides": [64], "block_size": 4, "ssm_sizes": [32, 16],
                "physical_blocks_per_logical_kv_block": 1,
            },
        },
        {
            "event": "read", "worker": 0, "engine": engine,
            "remote": {"pages_per_block": 1, "kernel_tokens": 4, "tp_size": 2, "dcp_size": 1, "ranks": [0, 1]},
            "request": {
                "local_blocks": [[1, 3], [0]], "remote_blocks": [[4, 2, 1], [5]], "cached_blocks": [], "peer": "P",
            },
            "transfers": [
                {
                    "op": "READ", "local_ids": [2, 3, 6, *state_ids[0]], "remote_ids": [4, 2, 1, *state_ids[1]],
                    "local_rows": halves[0], "remote_rows": remote,
                },
                {
                    "op": "READ", "local_ids": state_ids[0], "remote_ids": state_ids[1],
                    "local_rows": halves[1], "remote_rows": remote,
                },
            ],
        },
        {"event": "finished", "worker": 0, "zeroes": [[base + 7 * 64, 64]]},
    ]  # fmt: skip


def changed(raw: Raw, *path: Any, to: Any) -> Raw:
    """A copy with one value changed."""
    found = copy.deepcopy(raw)
    place = found
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = to
    return found
