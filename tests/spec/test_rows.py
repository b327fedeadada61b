# SPDX-License-Identifier: Apache-2.0
"""The judge's known answers on rows of descriptor lists: those nobody addresses, what rides along, and sections."""

from typing import Any

import pytest
from small_cases import aliased_groups, case, layer, replicated_ssm, ssm, worker
from spec_worlds import built, changed, two_workers

from kvproof.spec.decode import BadInput
from kvproof.spec.descriptors import DescriptorFile, DescriptorList, Row, Transfer
from kvproof.spec.judge import lists as module
from kvproof.spec.judge.judge import judge_lists
from kvproof.spec.judge.spans import BudgetExceeded
from kvproof.spec.judge.verdict import Finding, Judgement
from kvproof.spec.plan import ZeroRun
from kvproof.spec.validate import check_case
from kvproof.spec.vocabulary import Case, Group, Part
from kvproof.spec.world import resolve

# The two workers of spec_worlds with rows of 24 bytes: a at 0, b at 8 or 16. One token, so that page 2 on P and page 6
# on D are moved; b, of one state a page, needs nothing; D's page 7 ends zero.
BASES = {"P0": {"main": 1000, "state": 2000}, "D0": {"main": 3000, "state": 4000}}
RIDER: dict[str, Any] = {
    f"worker.{index}.{path}": value
    for index in (0, 1)
    for path, value in {
        "storages.0.bytes": 240,
        "layers.0.page_stride": 24,
        "layers.1.page_stride": 24,
        "layers.1.tokens_per_state": 2,
        "layers.1.parts": [{"name": "heads", "unit_bytes": 8}],
    }.items()
} | {"worker.1.tables": {"kv": {"blocks": [3, 0]}, "ssm": {"blocks": [4]}}}
SECTIONS = {"attention": (0, 10), "ssm": (10, 15)}
ROWS: tuple[tuple[Row, ...], tuple[Row, ...]] = (
    ((1000, 24, 0, 24, 10), (2000, 8, 0, 8, 5)),
    ((3000, 24, 0, 24, 10), (4000, 8, 0, 8, 5)),
)


def rider(source_offset: int = 8, target_offset: int = 8, **changes: Any) -> Case:
    offsets = {"worker.0.layers.1.offset": source_offset, "worker.1.layers.1.offset": target_offset}
    found = built(changed(two_workers(1), RIDER | offsets | changes))
    check_case(found)
    return found


def zeroes(target_offset: int = 8) -> tuple[ZeroRun, ...]:
    return tuple(ZeroRun(("D0", "main", 24 * 7 + offset), 8) for offset in (0, target_offset))


def lists(
    rows: tuple[tuple[Row, ...], tuple[Row, ...]] = ROWS,
    ids: tuple[tuple[int, ...], tuple[int, ...]] = ((2, 13), (6, 14)),
    sections: Any = (SECTIONS, SECTIONS),
    zeroed: tuple[ZeroRun, ...] | None = None,
    bases: dict[str, dict[str, int]] | None = None,
) -> DescriptorFile:
    prepared = [DescriptorList("VRAM", own, names) for own, names in zip(rows, sections, strict=True)]
    transfer = Transfer("P0", "D0", prepared[0], prepared[1], *ids)
    return DescriptorFile(1, "two", bases or BASES, (transfer,), zeroes() if zeroed is None else zeroed)


def words(answer: Judgement, law: str) -> list[str]:
    return [finding.words for finding in answer.findings if finding.law == law]


def test_equal_rows_are_lawful() -> None:
    for offset in (8, 16):
        assert judge_lists(rider(offset, offset), lists(zeroed=zeroes(offset))).findings == ()


def with_row(side: int, *rows: Row) -> DescriptorFile:
    """The lawful lists with rows at the end that no id addresses."""
    return lists((ROWS[0] + rows, ROWS[1]) if side == 0 else (ROWS[0], ROWS[1] + rows))


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(
    ("start", "row", "told"),
    [
        (3, (0, 8, 0, 8, 1), "8 bytes at 3"),  # before every storage
        (2**64 - 4, (0, 8, 0, 8, 1), f"8 bytes at {2**64 - 4}"),
        (2**64 + 2, (0, 8, 0, 8, 1), f"8 bytes at {2**64 + 2}"),
        (None, (0, 24, 0, 24, 11), "24 bytes at {240}"),  # one descriptor too many
        (None, (217, 24, 0, 24, 1), "24 bytes at {217}"),  # a byte too long
        (None, (0, 25, 0, 24, 10), "25 bytes at {216}"),
        (None, (0, 8, 0, 500, 3), "8 bytes at {500}"),  # first and last lie in a storage, the middle one in none
        (None, (241, 0, 0, 0, 1), "0 bytes at {241}"),  # nothing, but nowhere either
    ],
)
def test_l4_rows_that_nobody_addresses(side: int, start: int | None, row: Row, told: str) -> None:
    base = (1000, 3000)[side] if start is None else start
    for number in (217, 240, 216, 500, 241):
        told = told.replace(f"{{{number}}}", str(base + number))
    answer = judge_lists(rider(), with_row(side, (base + row[0], *row[1:])))
    assert (answer.verdict, answer.laws) == ("hazard", ("bounds",))
    assert answer.findings == (Finding("bounds", "tables", f"{'PD'[side]}0: row 2, {told}, lies in no storage of it"),)


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(
    "row",
    [
        (0, 24, 0, 24, 10),
        (216, 24, 0, 24, 1),
        (216, 24, 0, 0, 7),
        (0, 8, 0, 1000, 2),  # one descriptor in each storage
        (240, 0, 0, 0, 1),  # no bytes, at the end of a storage
        (0, 0, 0, 24, 10),
        (600, 24, 0, 24, 0),  # no descriptor at all
    ],
)
def test_l4_rows_that_are_fine(side: int, row: Row) -> None:
    answer = judge_lists(rider(), with_row(side, ((1000, 3000)[side] + row[0], *row[1:])))
    assert answer.findings == ()


def test_l8_a_row_in_another_memory_kind_that_nobody_addresses() -> None:
    host = rider(**{"worker.1.storages.2": {"name": "host", "bytes": 64, "memory": "DRAM"}})
    bases = BASES | {"D0": BASES["D0"] | {"host": 5000}}
    for row, told in (
        ((5000, 8, 0, 8, 8), "8 bytes at 5000"),
        ((4000, 8, 0, 500, 3), "8 bytes at 5000"),  # the last one alone; the middle one in no storage
        ((4032, 8, 0, 968, 2), "8 bytes at 5000"),
    ):
        answer = judge_lists(host, lists((ROWS[0], (*ROWS[1], row)), bases=bases))
        assert answer.verdict == "hazard"
        assert words(answer, "parity") == [f"D0: row 2, {told}, is DRAM, in a list of VRAM"]
        assert answer.laws == (("bounds", "parity") if row[3] == 500 else ("parity",))
    assert judge_lists(host, lists(bases=bases)).findings == ()


def test_many_rows_over_many_storages_get_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STEPS_LIMIT", 7)  # five rows, one of them in both storages and in what is between
    over = (ROWS[0], ((3000, 8, 0, 500, 3), *ROWS[1]))
    ids = ((2, 13), (9, 17))
    apart = {"attention": (3, 13), "ssm": (13, 18)}
    assert judge_lists(rider(), lists(over, ids, (SECTIONS, apart))).laws == ("bounds",)
    monkeypatch.setattr(module, "STEPS_LIMIT", 6)
    with pytest.raises(BudgetExceeded):
        judge_lists(rider(), lists(over, ids, (SECTIONS, apart)))


def zero_length(source: int, target: int, address: int = 3100) -> DescriptorFile:
    """The lawful lists and a pair of descriptors of these lengths, in the sections of attention."""
    rows = ((ROWS[0][0], (1000, source, 0, 0, 1), ROWS[0][1]), (ROWS[1][0], (address, target, 0, 0, 1), ROWS[1][1]))
    names = {"attention": (0, 11), "ssm": (11, 16)}
    return lists(rows, ((2, 14, 10), (6, 15, 10)), (names, names))


def test_a_zero_length_descriptor_that_is_addressed_moves_nothing() -> None:
    assert judge_lists(rider(), zero_length(0, 0)).findings == ()
    nowhere = judge_lists(rider(), zero_length(0, 0, 3300))
    assert nowhere.findings == (Finding("bounds", "tables", "D0: row 1, 0 bytes at 3300, lies in no storage of it"),)
    assert nowhere.verdict == "hazard"


@pytest.mark.parametrize(("source", "target"), [(0, 4), (4, 0)])
def test_a_zero_length_descriptor_pairs_with_its_like_only(source: int, target: int) -> None:
    answer = judge_lists(rider(), zero_length(source, target))
    assert (answer.verdict, answer.laws) == ("hazard", ("parity",))
    assert words(answer, "parity") == [
        f"source descriptor 10 ({source} bytes of VRAM, in a VRAM list) is paired with "
        f"target descriptor 10 ({target} bytes of VRAM, in a VRAM list)"
    ]


def test_l7_ids_without_a_partner_are_in_range_too() -> None:
    answer = judge_lists(rider(), lists(ids=((2, 13, 15), (6, 14))))
    assert (answer.verdict, answer.laws) == ("hazard", ("descriptor-ids", "parity"))
    assert words(answer, "descriptor-ids") == ["P0: id 15 is not below 15, its list's length"]
    assert judge_lists(rider(), lists(ids=((2, 13, 14), (6, 14)))).laws == ("parity",)
    twice = judge_lists(rider(), lists(ids=((2, 13), (6, 14, 6))))
    assert words(twice, "descriptor-ids") == ["D0: descriptor 6 is written twice"]


@pytest.mark.parametrize(("source_offset", "target_offset"), [(8, 16), (16, 8)])
def test_l6b_a_layer_at_another_offset_rides_along(source_offset: int, target_offset: int) -> None:
    """Nothing of b is required, so that no byte that counts ends wrong."""
    found = rider(source_offset, target_offset)
    answer = judge_lists(found, lists(zeroed=zeroes(target_offset)))
    assert answer.findings == (
        Finding(
            "folding",
            "tables",
            "D0, b, page 6: rides in the descriptor of 24 bytes at 144 of D0/main, "
            "but no page of it on P0 lies alike in that at 48 of P0/main",
        ),
    )
    assert (answer.verdict, answer.corrupt) == ("hazard", ())
    # a alone leaves b where it is.
    alone = tuple(((rows[0][0], 8, 0, 24, 10), rows[1]) for rows in ROWS)
    assert judge_lists(found, lists((alone[0], alone[1]), zeroed=zeroes(target_offset))).findings == ()


def test_l6b_a_byte_is_enough() -> None:
    found = rider(8, 16)
    for length, laws in ((16, ()), (17, ("folding",))):
        rows = tuple(((own[0][0], length, 0, 24, 10), own[1]) for own in ROWS)
        assert judge_lists(found, lists((rows[0], rows[1]), zeroed=zeroes(16))).laws == laws


def test_l6b_every_pair_of_a_row_counts() -> None:
    """The first and the last pair of the two rows are right, the one between reads eight bytes further on."""
    found = rider(16, 16, **{"worker.1.tables": {"kv": {"blocks": [3, 0, 1]}, "ssm": {"blocks": [4]}}})
    source: tuple[Row, ...] = ((1000, 24, 0, 8, 28), ROWS[0][1])
    sections = {"attention": (0, 28), "ssm": (28, 33)}, SECTIONS
    zeroed = zeroes(16)
    for middle, folding in ((9, False), (10, True), (12, False)):
        answer = judge_lists(found, lists((source, ROWS[1]), ((6, middle, 12, 31), (6, 2, 0, 14)), sections, zeroed))
        assert ("folding" in answer.laws) == folding, middle


PARTS = (Part("conv", 3), Part("temporal", 5))


def split(target_at: int = 0) -> Case:
    """One ssm layer of two parts and two bytes of padding; on D all its pages begin somewhat later."""
    sides = [
        worker(
            "producer", {"s": 50}, [ssm()], [layer("m", "ssm", "s", 0, 10, 10, *PARTS)], {"ssm": [3]}, {"device": 5}
        ),
        worker(
            "consumer",
            {"s": 50 + target_at},
            [ssm()],
            [layer("m", "ssm", "s", target_at, 10, 10, *PARTS)],
            {"ssm": [2]},
            {"device": 5},
        ),
    ]
    return case(*sides, 4)


def split_lists(*pieces: tuple[int, int, int], target_at: int = 0, section: Any = "ssm") -> DescriptorFile:
    """Pieces of the page, a row each: where in P's page, where in D's, how many bytes."""
    source = tuple((1000 + first, size, 0, 10, 5) for first, _, size in pieces)
    target = tuple((2000 + target_at + second, size, 0, 10, 5) for _, second, size in pieces)
    ids = tuple(tuple(5 * number + block for number in range(len(pieces))) for block in (3, 2))
    sections = None if section is None else {section: (0, 5 * len(pieces))}
    prepared = DescriptorList("VRAM", source, sections), DescriptorList("VRAM", target, sections)
    transfer = Transfer("P0", "D0", *prepared, ids[0], ids[1])
    return DescriptorFile(1, "small", {"P0": {"s": 1000}, "D0": {"s": 2000}}, (transfer,))


@pytest.mark.parametrize("target_at", [0, 7])
def test_l6b_parts_of_an_ssm_page_one_by_one(target_at: int) -> None:
    found = split(target_at)
    assert judge_lists(found, split_lists((0, 0, 3), (3, 3, 5), target_at=target_at)).findings == ()
    assert judge_lists(found, split_lists((0, 0, 3), (3, 3, 5), (9, 9, 1), target_at=target_at)).findings == ()
    padding = judge_lists(found, split_lists((0, 0, 3), (3, 3, 5), (8, 9, 1), target_at=target_at))
    assert (padding.verdict, padding.laws) == ("hazard", ("folding",))
    assert words(padding, "folding") == [
        f"D0, m, page 2: rides in the descriptor of 1 bytes at {29 + target_at} of D0/s, "
        "but no page of it on P0 lies alike in that at 38 of P0/s"
    ]
    swapped = judge_lists(found, split_lists((5, 0, 3), (0, 3, 5), target_at=target_at))
    assert (swapped.verdict, swapped.laws) == ("corrupt", ("alignment", "folding"))


def aliased(swapped: bool = False) -> Case:
    """Three groups over the same packed rows. Swapped: D has the two layers of g1 the other way round."""
    found = case(aliased_groups("producer", 1, 3, 2), aliased_groups("consumer", 2, 1, 3), 200)
    if not swapped:
        return found
    consumer = found.worker[1]
    first, second = (consumer.layers[index] for index in (2, 3))
    layers = list(consumer.layers)
    layers[2], layers[3] = (
        type(first)(first.name, "g1", "kv", second.offset, first.page_bytes, first.page_stride),
        type(second)(second.name, "g1", "kv", first.offset, second.page_bytes, second.page_stride),
    )
    other = type(consumer)(
        "D0", "consumer", consumer.storages, consumer.pools, consumer.groups, tuple(layers), consumer.tables
    )
    return type(found)(1, "small", (found.worker[0], other), request=found.request)


def aliased_lists(source_ids: tuple[int, ...], target_ids: tuple[int, ...]) -> DescriptorFile:
    row = 135168
    prepared = [DescriptorList("VRAM", ((base, row, 0, row, 4),), {"attention": (0, 4)}) for base in (0, 2**32)]
    transfer = Transfer("P0", "D0", prepared[0], prepared[1], source_ids, target_ids)
    return DescriptorFile(1, "small", {"P0": {"kv": 0}, "D0": {"kv": 2**32}}, (transfer,))


def test_l6b_asks_the_group_whose_block_is_moved_of_those_that_share_a_row() -> None:
    assert judge_lists(aliased(), aliased_lists((1, 3, 2), (2, 1, 3))).findings == ()
    # Only g1's layers lie elsewhere, and only g1's block is asked.
    assert "folding" not in judge_lists(aliased(swapped=True), aliased_lists((1, 2), (2, 3))).laws
    answer = judge_lists(aliased(swapped=True), aliased_lists((1, 3, 2), (2, 1, 3)))
    assert answer.laws == ("alignment", "folding")
    assert words(answer, "folding")[0].startswith("D0, g1.1, page 1: rides in the descriptor of 135168 bytes")


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_l6b_asks_every_group_with_a_block_in_the_descriptor(order: tuple[int, ...]) -> None:
    """A descriptor over two blocks, of two groups, whichever comes first: g1 lies elsewhere on P."""
    names = ["g0", "g1"]

    def side(role: Any, offsets: dict[str, tuple[str, int]], blocks: dict[str, int]) -> Any:
        groups = [Group(name, "attention", "device", block_tokens=4) for name in names]
        layers = [layer(name, name, *offsets[name], 4, 4) for name in (names[i] for i in order)]
        tables = {name: [blocks[name]] for name in names}
        return worker(role, {"s": 20, "t": 20}, groups, layers, tables, {"device": 5})

    for home, laws in (("s", ()), ("t", ("alignment", "folding"))):
        found = case(
            side("producer", {"g0": ("s", 0), "g1": (home, 0)}, {"g0": 1, "g1": 2}),
            side("consumer", {"g0": ("s", 0), "g1": ("s", 0)}, {"g0": 3, "g1": 4}),
            4,
        )
        source = DescriptorList("VRAM", ((1004, 8, 0, 0, 1),), {"attention": (0, 1)})
        target = DescriptorList("VRAM", ((2012, 8, 0, 0, 1),), {"attention": (0, 1)})
        bases = {"P0": {"s": 1000, "t": 1100}, "D0": {"s": 2000, "t": 2100}}
        lists = DescriptorFile(1, "small", bases, (Transfer("P0", "D0", source, target, (0,), (0,)),))
        assert judge_lists(found, lists).laws == laws


@pytest.mark.parametrize("before", [0, 1, 3])
def test_a_descriptor_that_begins_before_the_first_page(before: int) -> None:
    """Page 0 is moved with the bytes before it, which belong to nobody; P has as many before its own, or not."""
    groups = [Group("g", "attention", "device", block_tokens=4)]
    found = case(
        worker("producer", {"s": 30}, groups, [layer("a", "g", "s", 3, 4, 4)], {"g": [1]}, {"device": 5}),
        worker("consumer", {"s": 30}, groups, [layer("a", "g", "s", 3, 4, 4)], {"g": [0]}, {"device": 5}),
        4,
    )
    source = DescriptorList("VRAM", ((1000 + 7 - before, 4 + before, 0, 0, 1),))
    target = DescriptorList("VRAM", ((2000 + 3 - before, 4 + before, 0, 0, 1),))
    lists = DescriptorFile(1, "small", {"P0": {"s": 1000}, "D0": {"s": 2000}}, (
        Transfer("P0", "D0", source, target, (0,), (0,)),
    ))  # fmt: skip
    answer = judge_lists(found, lists)
    assert "folding" not in answer.laws
    assert answer.laws == (() if before == 0 else ("confinement",))


@pytest.mark.parametrize(
    ("kind", "section", "laws"),
    [
        ("ssm", "ssm", ()),
        ("ssm", None, ()),
        ("ssm", "attention", ("descriptor-ids",)),
        ("ssm", "replicated-ssm", ("descriptor-ids",)),
        ("replicated-ssm", "replicated-ssm", ()),
        ("replicated-ssm", "ssm", ("descriptor-ids",)),
        ("ring", "attention", ()),
        ("ring", "ssm", ("descriptor-ids",)),
    ],
)
def test_l7_the_section_of_the_group(kind: str, section: str | None, laws: tuple[str, ...]) -> None:
    group = {"ssm": ssm("g"), "replicated-ssm": replicated_ssm("g"), "ring": Group("g", "ring", "device", 4)}[kind]
    page = layer("m", "g", "s", 0, 10, 10)
    found = case(
        worker("producer", {"s": 50}, [group], [page], {"g": [3]}, {"device": 5}),
        worker("consumer", {"s": 50}, [group], [page], {"g": [2]}, {"device": 5}),
        4,
    )
    answer = judge_lists(found, split_lists((0, 0, 10), section=section))
    assert answer.laws == laws
    if laws:
        assert answer.verdict == "hazard"
        assert words(answer, "descriptor-ids") == [
            f"source id 3 of group g ({kind}) is not in the list's section {'attention' if kind == 'ring' else kind}"
        ]


@pytest.mark.parametrize(
    ("sections", "told"),
    [
        ((SECTIONS, SECTIONS), None),
        ((SECTIONS | {"ssm": (11, 15)}, SECTIONS), None),
        ((SECTIONS | {"ssm": (14, 15)}, SECTIONS), "source id 13 of group ssm (ssm) is not in the list's section ssm"),
        (({"attention": (0, 10)}, SECTIONS), "source id 13 of group ssm (ssm) is not in the list's section ssm"),
        ((SECTIONS, {"attention": (0, 15)}), "target id 14 of group ssm (ssm) is not in the list's section ssm"),
        ((SECTIONS, SECTIONS | {"attention": (0, 6)}),
         "target id 6 of group kv (attention) is not in the list's section attention"),
        ((SECTIONS, SECTIONS | {"attention": (6, 7)}), None),
        (({}, SECTIONS), "source id 2 of group kv (attention) is not in the list's section attention"),
    ],
)  # fmt: skip
def test_l7_ids_in_the_section_of_another_group_or_in_none(sections: Any, told: str | None) -> None:
    answer = judge_lists(rider(), lists(sections=sections))
    assert words(answer, "descriptor-ids") == ([] if told is None else [told])
    assert answer.verdict == ("lawful" if told is None else "hazard")


def test_lists_without_a_request() -> None:
    tables = {f"worker.{index}.tables": {} for index in (0, 1)}
    raw = changed(two_workers(1), RIDER | tables)
    del raw["request"]
    found = built(raw)
    check_case(found)
    assert all(view.table is None for w in found.worker for view in resolve(found, w).layers)
    empty = ((), ())
    assert judge_lists(found, lists(ids=empty, zeroed=())).findings == ()
    assert judge_lists(found, with_nobody((0, 8, 0, 8, 1))).laws == ("bounds",)
    for given in (lists(ids=empty), lists(zeroed=()), lists(ids=((2,), (6,)), zeroed=())):
        with pytest.raises(BadInput, match=r"case two has no \[request\]: there is nothing that a plan could move"):
            judge_lists(found, given)


def with_nobody(row: Row) -> DescriptorFile:
    return lists((ROWS[0], (*ROWS[1], row)), ((), ()), zeroed=())
