# SPDX-License-Identifier: Apache-2.0
"""Well-formedness: each condition broken alone is bad input whose text says which, and where."""

import time
from typing import Any

import pytest
from spec_worlds import GONE, built, changed, two_workers

from kvproof.spec.decode import BadInput
from kvproof.spec.validate import NAMES_LIMIT, check_case, load_case, problems
from kvproof.spec.vocabulary import Raw

P, D = "worker.0", "worker.1"


def words(changes: dict[str, Any], tokens: int = 6) -> str:
    """What the check says of the two workers with these changes."""
    with pytest.raises(BadInput) as caught:
        check_case(built(changed(two_workers(tokens), changes)))
    return str(caught.value)


def check(changes: dict[str, Any], tokens: int = 6) -> None:
    check_case(built(changed(two_workers(tokens), changes)))


def layer(name: str, offset: int, size: int, stride: int, group: str = "kv", storage: str = "main") -> dict[str, Any]:
    return {
        "name": name, "group": group, "storage": storage, "offset": offset, "page_bytes": size, "page_stride": stride,
    }  # fmt: skip


def group(name: str, kind: str = "attention", pool: str = "device", **fields: Any) -> dict[str, Any]:
    return {"name": name, "kind": kind, "pool": pool, **fields}


def test_the_two_workers_are_well_formed() -> None:
    check({})
    check({"request": GONE, f"{P}.tables": GONE, f"{D}.tables": GONE})


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({f"{D}.name": "P0"}, "the case: two workers are named 'P0'"),
        ({f"{D}.name": "D/0"}, "worker D/0: a worker's name may not contain '/'"),
        ({f"{P}.storages.1.name": "main"}, "worker P0: two storages are named 'main'"),
        ({f"{P}.pools.1.name": "device"}, "worker P0: two pools are named 'device'"),
        ({f"{D}.groups.1.name": "kv"}, "worker D0: two groups are named 'kv'"),
        ({f"{D}.layers.1.name": "a"}, "worker D0: two layers are named 'a'"),
        ({f"{D}.layers.1.key": "a"}, "worker D0: two layer keys are named 'a'"),
        ({f"{P}.groups.0.pool": "host"}, "worker P0, group kv: pool 'host' is not declared; declared: device, spare"),
        ({f"{P}.layers.0.group": "mla"}, "worker P0, layer a: group 'mla' is not declared; declared: kv, ssm"),
        ({f"{P}.layers.0.storage": "x"}, "worker P0, layer a: storage 'x' is not declared; declared: main, state"),
        ({f"{P}.tables.mla": {"blocks": []}}, "worker P0, tables: group 'mla' is not declared; declared: kv, ssm"),
        ({f"{P}.tp": [1, 1]}, "worker P0: tp = [1, 1]: the rank must be below the size"),
        ({f"{P}.pp": [2, 2]}, "worker P0: pp = [2, 2]: the rank must be below the size"),
        ({f"{D}.context": [4, 3]}, "worker D0: context = [4, 3]: the rank must be below the size"),
        ({f"{D}.layers.0.parts.1": {"name": "heads", "unit_bytes": 1}}, "layer a: two parts are named 'heads'"),
    ],
)
def test_names_and_references(changes: dict[str, Any], expected: str) -> None:
    assert expected in words(changes)


def test_a_rank_below_its_size_is_fine() -> None:
    check({f"{P}.tp": [1, 2], f"{P}.pp": [0, 2], f"{D}.context": [2, 3]})


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({f"{P}.groups.0.block_tokens": GONE}, "worker P0, group kv: block_tokens is missing; kind attention needs it"),
        ({f"{P}.groups.0.kind": "sliding"}, "worker P0, group kv: window_tokens is missing; kind sliding needs it"),
        (
            {f"{P}.groups.0.window_tokens": 3},
            "worker P0, group kv: window_tokens = 3 applies to kind sliding only, not attention",
        ),
        (
            {f"{P}.groups.0.retained_tokens": 3},
            "worker P0, group kv: retained_tokens = 3 applies to kind sliding only, not attention",
        ),
        ({f"{D}.groups.1.block_tokens": 4}, "worker D0, group ssm: block_tokens = 4 does not apply to kind ssm"),
        ({f"{D}.groups.1.pages_per_block": 2}, "worker D0, group ssm: pages_per_block = 2 does not apply to kind ssm"),
        ({f"{D}.groups.1.kind": "ring"}, "worker D0, group ssm: block_tokens is missing; kind ring needs it"),
        (
            {f"{D}.groups.1.kind": "replicated-ssm", f"{D}.groups.1.block_tokens": 4},
            "worker D0, group ssm: block_tokens = 4 does not apply to kind replicated-ssm",
        ),
        ({f"{D}.layers.2.tokens_per_state": 2}, "worker D0, layer s: tokens_per_state = 2 does not apply to kind ssm"),
        ({f"{D}.tables.kv.live": 0}, "worker D0, table kv: live = 0 does not apply to kind attention"),
        ({f"{D}.tables.ssm.first": 1}, "worker D0, table ssm: first = 1 does not apply to kind ssm"),
        (
            {f"{P}.tables.kv.cached_tokens": 0},
            "worker P0, table kv: cached_tokens = 0 is for consumers; a producer has none",
        ),
        ({f"{P}.tables.ssm": GONE}, "worker P0: the table of group 'ssm' is missing"),
        ({f"{D}.tables": GONE}, "worker D0: the table of group 'kv' is missing"),
        ({"request": GONE}, "worker P0: there are tables but no [request]"),
    ],
)
def test_fields_belong_to_a_kind_and_a_side(changes: dict[str, Any], expected: str) -> None:
    assert expected in words(changes)


def test_the_fields_of_each_kind_are_accepted() -> None:
    ring = {"name": "ssm", "kind": "ring", "pool": "device", "block_tokens": 7}
    check({f"{P}.groups.1": ring, f"{D}.groups.1": ring})
    sliding = {"window_tokens": 3, "retained_tokens": 2, "kind": "sliding"}
    check({f"{P}.groups.0.{key}": value for key, value in sliding.items()})
    check({f"{P}.groups.1.kind": "replicated-ssm"})


def test_w2_pages_divide_the_block() -> None:
    assert words({f"{P}.groups.0.block_tokens": 5}) == (
        "worker P0, group kv: pages_per_block = 2 does not divide block_tokens = 5 (W2)"
    )


def test_w2_states_divide_the_page() -> None:
    check({f"{P}.layers.0.tokens_per_state": 2})
    assert words({f"{P}.layers.0.tokens_per_state": 3}) == (
        "worker P0, layer a: tokens_per_state = 3 does not divide the page's 2 tokens (W2)"
    )
    assert "(W2)" in words({f"{P}.layers.0.tokens_per_state": 4})


def test_w3_a_page_is_no_longer_than_its_stride() -> None:
    check({f"{D}.layers.2.page_bytes": 7})
    assert words({f"{D}.layers.2.page_bytes": 9}) == "worker D0, layer s: page_bytes = 9 exceeds page_stride = 8 (W3)"


def test_w4_units_held_are_units_of_the_model() -> None:
    check({f"{P}.layers.0.parts.0.units": 3, f"{P}.layers.0.parts.0.first": 1})
    assert words({f"{P}.layers.0.parts.0.first": 1}) == "worker P0, layer a, part heads: units 1 to 2 of 2 (W4)"
    assert "units 0 to 1 of 1 (W4)" in words({f"{P}.layers.0.parts.0.units": 1})


def test_w4_parts_end_inside_the_page() -> None:
    assert words({f"{P}.layers.0.parts.0.unit_bytes": 3}) == (
        "worker P0, layer a, part heads: ends at byte 12 of a page of page_bytes = 8 (W4)"
    )
    half = {"name": "k", "unit_bytes": 2}
    check({f"{P}.layers.0.parts": [half, {"name": "v", "unit_bytes": 2}]})
    assert "part w: ends at byte 10 of a page of page_bytes = 8 (W4)" in words(
        {f"{P}.layers.0.parts": [half, {"name": "v", "unit_bytes": 2}, {"name": "w", "unit_bytes": 1}]}
    )


def test_w4_units_of_a_state_page_are_whole() -> None:
    check({f"{P}.layers.2.parts": [{"name": "conv", "unit_bytes": 8}]})
    assert "ends at byte 9 of a page of page_bytes = 8 (W4)" in words(
        {f"{P}.layers.2.parts": [{"name": "conv", "unit_bytes": 9}]}
    )


def test_w5_pages_end_inside_the_storage() -> None:
    assert words({f"{P}.storages.0.bytes": 159}) == (
        "worker P0, layer b: page 9 ends at byte 160 of storage 'main', which has 159 (W5)"
    )
    assert "worker P0, layer s: page 4 ends at byte 41 of storage 'state', which has 40 (W5)" in words(
        {f"{P}.layers.2.offset": 1}
    )
    assert "page 11 ends at byte" in words({f"{P}.pools.0.blocks": 6})


def test_w6_listed_blocks_are_the_pool_s() -> None:
    check({f"{D}.tables.kv.blocks": [1, 4]})
    assert words({f"{D}.tables.kv.blocks": [1, 5]}) == (
        "worker D0, table kv: block 5 is not in pool 'device', whose ids are 0 to 4 (W6)"
    )


def test_w6_a_null_block_may_be_listed_by_everybody() -> None:
    check({f"{D}.pools.0.null": 0, f"{D}.tables.kv.blocks": [0, 0, 1]})
    assert "(W7)" in words({f"{D}.tables.kv.blocks": [0, 0, 1]})


def test_w7_blocks_of_a_table_are_distinct() -> None:
    assert words({f"{D}.tables.kv.blocks": [1, 2, 1]}) == "worker D0, table kv: block 1 is listed twice (W7)"


def test_w8_blocks_of_two_groups_are_distinct() -> None:
    assert words({f"{P}.tables.ssm.blocks": [2]}) == (
        "worker P0, table ssm: block 2 of pool 'device' is group 'kv''s already (W8)"
    )
    check({f"{P}.tables.ssm.blocks": [2], f"{P}.groups.1.pool": "spare"})


def test_w9_layers_of_a_storage_share_one_frame() -> None:
    # Pitch of the pages a and b: 32. A third layer in [12, 16) of each row shares b's bytes, as another group may.
    other = group("other", block_tokens=4, pages_per_block=2)
    table: Raw = {"blocks": []}
    base = {f"{P}.groups.2": other, f"{P}.tables.other": table}
    check(base | {f"{P}.layers.3": layer("c", 12, 4, 16, "other")})
    # Its stride differs: distinct blocks would share bytes.
    assert words(base | {f"{P}.layers.3": layer("c", 12, 4, 15, "other")}) == (
        "worker P0, storage main: layers a and c interleave without one frame: distinct blocks would share bytes (W9)"
    )
    # Equal pitch, but the footprint [0, 40) of both blocks is longer than the pitch of 32.
    assert "layers a and c interleave without one frame: distinct blocks would share bytes (W9)" in words(
        base | {f"{P}.layers.3": layer("c", 20, 4, 16, "other"), f"{P}.storages.0.bytes": 168}
    )


def test_w9_one_pitch_of_unequal_pages_is_one_frame() -> None:
    # One page a block of stride 32, beside two pages a block of stride 16.
    base = {f"{P}.groups.2": group("other", block_tokens=4), f"{P}.tables.other": {"blocks": []}}
    check(base | {f"{P}.layers.3": layer("c", 0, 32, 32, "other")})
    assert "layers a and c interleave without one frame" in words(
        base | {f"{P}.layers.3": layer("c", 0, 16, 16, "other")}
    )
    assert "layers a and c interleave without one frame" in words(
        base | {f"{P}.layers.3": layer("c", 9, 32, 32, "other"), f"{P}.storages.0.bytes": 169}
    )


def test_w10_layers_of_a_group_share_no_byte_of_a_page() -> None:
    assert words({f"{P}.layers.1.offset": 7}) == (
        "worker P0, storage main: layers a and b of group 'kv' have pages that share bytes (W10)"
    )
    assert "(W10)" in words({f"{P}.layers.1.offset": 0})
    check({f"{P}.layers.1.offset": 8, f"{P}.layers.0.offset": 0})


def test_w10_goes_by_the_place_in_the_row_not_by_the_order_of_layers() -> None:
    later = {f"{P}.layers.0.offset": 16, f"{P}.storages.0.bytes": 168}
    check(later)
    assert "layers a and b of group 'kv' have pages that share bytes (W10)" in words(
        later | {f"{P}.layers.1.offset": 9}
    )


def test_w11_layers_of_two_pools_share_no_byte() -> None:
    assert words({f"{P}.layers.2.storage": "main", f"{P}.groups.1.pool": "spare"}) == (
        "worker P0, storage main: layers a and s share bytes but not the pool (W11)"
    )
    check(
        {
            f"{P}.layers.2.storage": "main",
            f"{P}.layers.2.offset": 160,
            f"{P}.groups.1.pool": "spare",
            f"{P}.storages.0.bytes": 200,
        }
    )


def test_w14_the_cached_prefix_is_within_the_request() -> None:
    check({f"{D}.tables.kv.cached_tokens": 6})
    check({f"{D}.tables.kv.cached_tokens": 3})
    assert words({f"{D}.tables.kv.cached_tokens": 7}) == (
        "worker D0, table kv: cached_tokens = 7 exceeds the request's 6 tokens (W14)"
    )
    check({f"{D}.tables.ssm.cached_tokens": 7})


def test_w19_the_live_block_is_given() -> None:
    assert words({f"{D}.tables.ssm.blocks": [3, 4]}) == (
        "worker D0, table ssm: live is missing; a ssm table of 2 blocks needs it (W19)"
    )
    check({f"{D}.tables.ssm": {"blocks": [3, 4], "live": 1}})
    assert words({f"{D}.tables.ssm": {"blocks": [3, 4], "live": 2}}) == (
        "worker D0, table ssm: live = 2 is no index into its 2 blocks (W19)"
    )
    check({f"{D}.tables.ssm.blocks": []})


def test_w19_a_table_without_blocks_has_no_live_one() -> None:
    """An engine that has not allocated anything yet may still say which slot will be live."""
    check({f"{D}.tables.ssm": {"blocks": [], "live": 0}})
    assert words({f"{D}.tables.ssm": {"blocks": [3], "live": 1}}) == (
        "worker D0, table ssm: live = 1 is no index into its 1 blocks (W19)"
    )


@pytest.mark.parametrize("null", [5, 6, 2**40])
def test_w6_the_null_block_is_one_of_its_pool(null: int) -> None:
    assert words({f"{D}.pools.1.null": null}) == (
        f"worker D0, pool spare: null = {null} is not one of its ids, 0 to 4 (W6)"
    )


@pytest.mark.parametrize("null", [0, 4])
def test_w6_the_null_block_may_be_the_first_or_the_last(null: int) -> None:
    check({f"{D}.pools.1.null": null})


def test_w19_the_live_block_is_not_null() -> None:
    null = {f"{D}.pools.0.null": 3}
    assert words(null) == "worker D0, table ssm: the live block is 3, the pool's null block (W19)"
    check(null | {f"{D}.tables.ssm": {"blocks": [3, 4], "live": 1}})


@pytest.mark.parametrize(
    ("expect", "expected"),
    [
        ({"pages": {"z": {}}}, "expect.pages: layer 'z' is not declared; declared: a, b, s"),
        ({"pages": {"a": {"X0": []}}}, "expect.pages.a: worker 'X0' is not declared; declared: D0, P0"),
        ({"zeroed": {"z": {}}}, "expect.zeroed: layer 'z' is not declared"),
        ({"regions": {"X0": []}}, "expect.regions: worker 'X0' is not declared"),
        ({"ids": {"X0": []}}, "expect.ids: worker 'X0' is not declared"),
        ({"ratio": {"lawful": {"D0.x": [1, 1]}}}, "expect.ratio.lawful: worker.group 'D0.x' is not declared"),
    ],
)
def test_expectations_name_what_exists(expect: dict[str, Any], expected: str) -> None:
    assert expected in words({"expect": expect})


def test_all_problems_of_a_stage_are_told() -> None:
    case = built(changed(two_workers(), {f"{P}.tables.kv.blocks": [1, 1, 9], f"{D}.tables.kv.cached_tokens": 7}))
    told = list(problems(case))
    assert [text[-4:] for text in told] == ["(W7)", "(W6)", "W14)"]


def timed(data: bytes) -> str:
    """The words on a big file, in less than five seconds of this process."""
    start = time.process_time()
    try:
        load_case(data)
        told = ""
    except BadInput as error:
        told = str(error)
    assert time.process_time() - start < 5
    return told


WORKER = """
[[worker]]
name = "{name}"
role = "{role}"
storages = [ {{ name = "m", bytes = {size}, memory = "VRAM" }} ]
pools = [ {{ name = "p", blocks = {pool} }} ]
groups = [ {{ name = "kv", kind = "attention", pool = "p", block_tokens = {tokens}, pages_per_block = {pages} }} ]
layers = [ {layers} ]
tables = {{ kv = {{ blocks = {blocks} }} }}
"""
LAYER = '{{ name = "l{0}", group = "kv", storage = "m", offset = {1}, page_bytes = {2}, page_stride = {3} }}'


def big(
    layers: str,
    blocks: str = "[1]",
    pool: int = 10,
    tokens: int = 4,
    pages: int = 1,
    size: int = 2**40,
    workers: int = 2,
) -> bytes:
    text = 'format = 1\nname = "big"\n[request]\ntokens = 4\n'
    for index in range(workers):
        role = "consumer" if index == 1 else "producer"
        text += WORKER.format(
            name=f"w{index}", role=role, size=size, pool=pool, tokens=tokens, pages=pages, layers=layers, blocks=blocks
        )
    return text.encode()


ONE = LAYER.format(0, 0, 1, 1)


def packed(count: int) -> str:
    return ", ".join(LAYER.format(i, 8 * i, 8, 8 * count) for i in range(count))


def test_blocks_of_two_to_the_40_pages_answer_quickly() -> None:
    page: Raw = {"tokens": 2**40, "pages": 2**40, "size": 2**48}
    assert "page 10995116277759 ends at byte 10995116277760 of storage 'm'" in timed(big(ONE, **page | {"size": 2**40}))
    assert "its tables list 1099511627776 pages of layers; at most 300000 are checked" in timed(big(ONE, **page))
    assert timed(big(ONE, blocks="[]", **page)) == ""


def test_a_thousand_layers_answer_quickly() -> None:
    assert timed(big(packed(500))) == ""  # 249 500 pairs of layers that share a storage
    told = timed(big(packed(NAMES_LIMIT + 1)))
    assert told == "worker w0: 1001 layers; at most 1000 are allowed"


def test_many_workers_of_many_layers_answer_quickly() -> None:
    told = timed(big(packed(900), workers=10))
    assert told == "the case has 4045500 pairs of layers that share a storage; at most 250000 are checked"
    assert timed(big(packed(501))) == (
        "the case has 250500 pairs of layers that share a storage; at most 250000 are checked"
    )


def test_four_mebibytes_of_blocks_answer_quickly() -> None:
    numbers = str(list(range(300_000))).replace(" ", "")
    assert timed(big(ONE, blocks=numbers, pool=300_000, workers=1)) == ""
    many = str(list(range(500_000))).replace(" ", "")
    assert timed(big(ONE, blocks=many, pool=500_000, workers=1)) == (
        "worker w0: its tables list 500000 pages of layers; at most 300000 are checked"
    )
    two = ", ".join(LAYER.format(i, 10**6 * i, 1, 1) for i in range(2))
    assert "its tables list 600000 pages of layers" in timed(big(two, blocks=numbers, pool=300_000, workers=1))
    assert "block 5 is listed twice (W7)" in timed(big(ONE, blocks="[" + "5," * 1_900_000 + "]", workers=1))
    assert "block 99 is not in pool 'p'" in timed(big(ONE, blocks="[" + "99," * 1_200_000 + "]", workers=1))


def test_the_numbers_of_parts_are_limited() -> None:
    parts = [{"name": f"p{i}", "unit_bytes": 1} for i in range(101)]
    assert words({f"{P}.layers.2.parts": parts}).startswith("worker P0, layer s: 101 parts; at most 100 are allowed")


@pytest.mark.parametrize("name", ["a\ufeffb", "a\u202eb", "a\u00a0b"])
def test_names_can_be_shown(name: str) -> None:
    assert "not printable" in words({"worker.0.storages.0.name": name, "worker.0.layers.0.storage": name})
    assert "not printable" in words({"name": name})
