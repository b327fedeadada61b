# SPDX-License-Identifier: Apache-2.0
"""Small geometries for tests, written with few words: one storage, pool, group or layer a line."""

from kvproof.spec.vocabulary import Case, Group, Layer, Part, Pool, Request, Role, Storage, Table, Worker


def attention(name: str = "kv", block_tokens: int = 64, pages_per_block: int = 1, pool: str = "device") -> Group:
    return Group(name, "attention", pool, block_tokens=block_tokens, pages_per_block=pages_per_block)


def sliding(name: str, block_tokens: int, window_tokens: int, retained_tokens: int = 0) -> Group:
    return Group(
        name,
        "sliding",
        "device",
        block_tokens=block_tokens,
        window_tokens=window_tokens,
        retained_tokens=retained_tokens,
    )


def ring(name: str = "ring", block_tokens: int = 8) -> Group:
    return Group(name, "ring", "device", block_tokens=block_tokens)


def ssm(name: str = "ssm") -> Group:
    return Group(name, "ssm", "device")


def replicated_ssm(name: str = "ple") -> Group:
    return Group(name, "replicated-ssm", "device")


def layer(
    name: str, group: str, storage: str, offset: int, page_bytes: int, page_stride: int, *parts: Part, key: str = ""
) -> Layer:
    return Layer(name, group, storage, offset, page_bytes, page_stride, parts=parts, key=key or None)


def worker(
    role: Role,
    storages: dict[str, int],
    groups: list[Group],
    layers: list[Layer],
    tables: dict[str, list[int] | Table] | None = None,
    pools: dict[str, int] | None = None,
    host: tuple[str, ...] = (),
) -> Worker:
    """A worker called P0 or D0. ``storages``: bytes by name; ``pools``: blocks by name, ten if not said."""
    given = {name: t if isinstance(t, Table) else Table(tuple(t)) for name, t in (tables or {}).items()}
    return Worker(
        "P0" if role == "producer" else "D0",
        role,
        tuple(Storage(name, size, "DRAM" if name in host else "VRAM") for name, size in storages.items()),
        tuple(Pool(name, blocks) for name, blocks in (pools or {"device": 10}).items()),
        tuple(groups),
        tuple(layers),
        given,
    )


def case(producer: Worker, consumer: Worker, tokens: int | None = None) -> Case:
    return Case(1, "small", (producer, consumer), request=None if tokens is None else Request(tokens))


def hisparse(
    producer_pages_per_block: int,
    producer_blocks: list[int],
    consumer_pages_per_block: int,
    host_table: Table,
    index_table: Table,
    tokens: int = 160,
) -> Case:
    """Two layers of 64-token pages, 100 a layer: one group on P; on D a group in host memory, another on the device."""
    p, d = producer_pages_per_block, consumer_pages_per_block
    return case(
        worker(
            "producer",
            {"main": 6400, "index": 12800},
            [attention("kv", 64 * p, p)],
            [layer("attn", "kv", "main", 0, 64, 64), layer("indexer", "kv", "index", 0, 128, 128)],
            {"kv": producer_blocks},
            {"device": 100 // p},
        ),
        worker(
            "consumer",
            {"host": 6400, "index": 12800},
            [attention("host", 64 * d, d, "host"), attention("idx", 64 * d, d)],
            [layer("attn", "host", "host", 0, 64, 64), layer("indexer", "idx", "index", 0, 128, 128)],
            {"host": host_table, "idx": index_table},
            {"host": 100 // d, "device": 100 // d},
            host=("host",),
        ),
        tokens,
    )


def padded_tail(cached_on_host: int = 0) -> Case:
    """160 tokens; P's blocks 10 and 11 are pages 20 to 23, the last of them padding. D lists three pages."""
    return hisparse(2, [10, 11], 1, Table((30, 31, 32), cached_tokens=cached_on_host), Table((40, 41, 42)))


def reverse_geometry(cached_on_host: int = 0) -> Case:
    """160 tokens; D's blocks of two pages are pages 60 to 63 (host) and 80 to 83 (index), P lists pages 10, 11, 12."""
    return hisparse(1, [10, 11, 12], 2, Table((30, 31), cached_tokens=cached_on_host), Table((40, 41)))


ROW, PAGE = 135168, 67584


def aliased_groups(role: Role, g0: int, g1: int, g2: int) -> Worker:
    """Two MLA groups and a ring group of two layers each, over the same packed rows of two pages; four rows."""
    groups = [attention("g0", 256), attention("g1", 256), ring("g2")]
    layers = [
        layer(f"{group}.{number}", group, "kv", number * PAGE, PAGE, ROW)
        for group in ("g0", "g1", "g2")
        for number in (0, 1)
    ]
    return worker(role, {"kv": 4 * ROW}, groups, layers, {"g0": [g0], "g1": [g1], "g2": [g2]}, {"device": 4})
