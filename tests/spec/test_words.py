# SPDX-License-Identifier: Apache-2.0
"""What a reader of a garbled answer is told: which tokens, of which layers, hold what instead."""

from pathlib import Path
from typing import Any

from spec_worlds import built

from kvproof.spec.judge.judge import judge
from kvproof.spec.judge.verdict import Judgement, Witness
from kvproof.spec.place import Place
from kvproof.spec.plan import Copy, Plan
from kvproof.spec.scope import assess
from kvproof.spec.validate import check_case, load_case
from kvproof.spec.vocabulary import Raw

PADDED_TAIL = Path(__file__).parents[2] / "cases" / "regressions" / "hisparse-padded-tail.toml"


def worker(name: str, role: str, table: Raw, group: Raw, layers: list[Raw], size: int, pool: Raw | None = None) -> Raw:
    return {
        "name": name,
        "role": role,
        "storages": [{"name": "m", "bytes": size, "memory": "VRAM"}],
        "pools": [pool or {"name": "p", "blocks": 8}],
        "groups": [{"name": "g", "pool": "p"} | group],
        "layers": [{"group": "g", "storage": "m"} | layer for layer in layers],
        "tables": {"g": table},
    }


def judged(
    group: Raw, layers: list[Raw], plan: list[tuple[int, int, int]], blocks: tuple[list[int], list[int]], tokens: int,
    size: int, zeroes: list[tuple[int, int]] | None = None, consumer: Raw | None = None, pool: Raw | None = None,
    producer: Raw | None = None,
) -> Judgement:  # fmt: skip
    """Copies and zeroes (source, target, bytes) between two equal workers of one storage."""
    case = built(
        {
            "format": 1,
            "name": "words",
            "request": {"tokens": tokens},
            "worker": [
                worker("P0", "producer", {"blocks": blocks[0]} | (producer or {}), group, layers, size, pool),
                worker("D0", "consumer", {"blocks": blocks[1]} | (consumer or {}), group, layers, size, pool),
            ],
        }
    )
    check_case(case)
    copies = tuple(Copy(Place("P0/m", source, count), Place("D0/m", target, count)) for source, target, count in plan)
    return judge(assess(case), Plan(copies, tuple(Place("D0/m", start, count) for start, count in zeroes or [])))


def first(answer: Judgement) -> str:
    return answer.findings[0].words


ATTENTION = {"kind": "attention", "block_tokens": 4}
RING = {"kind": "ring", "block_tokens": 4}
SSM = {"kind": "ssm"}
OPAQUE: Raw = {"name": "l", "offset": 0, "page_bytes": 10, "page_stride": 10}
HEADS = OPAQUE | {
    "page_bytes": 48,
    "page_stride": 48,
    "parts": [{"name": "k", "units": 3, "count": 3, "unit_bytes": 4}],
}
ROWS = OPAQUE | {"page_bytes": 48, "page_stride": 48,
                 "parts": [{"name": "k", "units": 3, "count": 3, "unit_bytes": 4, "order": "state-major"}]}  # fmt: skip


def test_the_padded_tail_in_words() -> None:
    # Both layers take the producer's last three pages: B C unused.
    spans = [("main", "host", 64, 30), ("index", "index", 128, 40)]
    copies = tuple(
        Copy(Place(f"P0/{source}", (21 + i) * size, size), Place(f"D0/{target}", (page + i) * size, size))
        for source, target, size, page in spans
        for i in range(3)
    )
    answer = judge(assess(load_case(PADDED_TAIL.read_bytes())), Plan(copies, ()))
    assert first(answer) == (
        "D0, layers.0.attn, page 30: tokens 0–63 come from P0 page 21, which holds tokens 64–127; "
        "and 5 more pages, 2 layers in all"
    )


def test_an_unused_page_in_words() -> None:
    # Two pages a block: P's page 3 is past the prompt of twelve tokens.
    group = {"kind": "attention", "block_tokens": 8, "pages_per_block": 2}
    answer = judged(group, [OPAQUE], [(0, 40, 20), (30, 60, 10)], ([0, 1], [2, 3]), 12, 160, [(70, 10)])
    assert first(answer) == (
        "D0, l, page 6: tokens 8–11 come from P0 page 3, which is unused: tokens 12–15 lie past the prompt's 12"
    )


def test_a_page_of_somebody_else_in_words() -> None:
    answer = judged(ATTENTION, [OPAQUE], [(70, 40, 10)], ([0], [4]), 4, 80)
    assert first(answer) == ("D0, l, page 4: tokens 0–3 come from P0 page 7 of l, which is no page of this request")


def test_padding_and_other_storages_in_words() -> None:
    short = OPAQUE | {"page_bytes": 8}
    answer = judged(ATTENTION, [short], [(8, 40, 2), (2, 42, 6)], ([0], [4]), 4, 80)
    assert first(answer) == (
        "D0, l, page 4: tokens 0–3 (bytes 0–1 of 8) come from byte 8 of P0/m, which is no layer's page"
    )


def test_a_copy_from_the_consumer_itself_in_words() -> None:
    case = built(
        {
            "format": 1,
            "name": "words",
            "request": {"tokens": 4},
            "worker": [
                worker(name, role, {"blocks": [block]}, ATTENTION, [OPAQUE], 80)
                for name, role, block in (("P0", "producer", 0), ("D0", "consumer", 4))
            ],
        }
    )
    answer = judge(assess(case), Plan((Copy(Place("D0/m", 40, 10), Place("D0/m", 40, 10)),), ()))
    assert first(answer) == "D0, l, page 4: tokens 0–3 come from D0 page 4, which holds tokens 0–3"


def test_a_partly_missing_ring_page_in_words() -> None:
    answer = judged(RING, [OPAQUE], [(0, 40, 7)], ([0], [4]), 9, 80)
    assert first(answer) == "D0, l, page 4: the ring state (bytes 7–9 of 10) is never written"
    assert answer.findings[0].witness == Witness("D0", "m", 47, 3, "l", 4)
    assert answer.corrupt == (Place("D0/m", 47, 3),)


def test_a_missing_state_in_words() -> None:
    answer = judged(SSM, [OPAQUE], [], ([0], [4]), 9, 80)
    assert first(answer) == "D0, l, page 4: the ssm state is never written"
    parts = OPAQUE | {
        "parts": [{"name": "conv", "unit_bytes": 4}, {"name": "h", "units": 3, "count": 3, "unit_bytes": 2}]
    }
    answer = judged(SSM, [parts], [(0, 40, 6)], ([0], [4]), 9, 80)
    assert first(answer) == "D0, l, page 4: the ssm state of part h, units 1–2 (bytes 2–5 of 6) is never written"
    answer = judged(SSM, [parts], [(3, 43, 7)], ([0], [4]), 9, 80)
    assert first(answer) == "D0, l, page 4: the ssm state of part conv (bytes 0–2 of 4) is never written"
    answer = judged(SSM, [parts], [(2, 40, 10)], ([0], [4]), 9, 80)
    assert first(answer) == (
        "D0, l, page 4: the ssm state of part conv comes from P0 page 0, which holds the ssm state of block 0"
    )


def test_a_zeroed_state_in_words() -> None:
    answer = judged(RING, [OPAQUE], [(0, 40, 10)], ([0], [4]), 9, 80, [(41, 1)])
    assert [finding.words for finding in answer.findings] == [
        "D0, l, page 4: the ring state (bytes 1 of 10) gets two different values",
        "D0, l, page 4: the ring state (bytes 1 of 10), required, is zeroed",
    ]
    answer = judged(RING, [OPAQUE], [], ([0], [4]), 9, 80, [(41, 1)], {"cached_tokens": 9})
    assert answer.findings[-1].words == "D0, l, page 4: the ring state (bytes 1 of 10), cached, is zeroed"


def test_units_and_states_of_a_unit_major_part_in_words() -> None:
    # Three heads of four tokens of four bytes: head 1 is [16, 32) of the page.
    whole = [(0, 192, 48)]
    assert judged(ATTENTION, [HEADS], whole, ([0], [4]), 4, 384).verdict == "lawful"

    def missing(start: int, end: int) -> Judgement:
        return judged(ATTENTION, [HEADS], [(0, 192, start), (end, 192 + end, 48 - end)], ([0], [4]), 4, 384)

    answer = missing(20, 28)
    assert first(answer) == "D0, l, page 4: tokens 1–2 of part k, unit 1 (bytes 20–27 of 48) are never written"
    assert answer.findings[0].witness == Witness("D0", "m", 212, 8, "l", 4, (1, 3), "k", (1, 2))
    assert first(missing(22, 23)) == "D0, l, page 4: token 1 of part k, unit 1 (bytes 22 of 48) is never written"
    assert missing(15, 17).findings[0].witness == Witness("D0", "m", 207, 2, "l", 4, (0, 4), "k", (0, 2))
    assert first(missing(15, 17)).startswith("D0, l, page 4: tokens 0–3 of part k, units 0–1 (bytes 15–16 of 48)")


def test_units_and_states_of_a_state_major_part_in_words() -> None:
    # Four tokens of three heads of four bytes: token 1 is [12, 24) of the page.
    def missing(start: int, end: int, tokens: int = 4) -> Judgement:
        return judged(ATTENTION, [ROWS], [(0, 192, start), (end, 192 + end, 48 - end)], ([0], [4]), tokens, 384)

    assert first(missing(16, 24)) == "D0, l, page 4: token 1 of part k, units 1–2 (bytes 16–23 of 48) is never written"
    assert missing(16, 24).findings[0].witness == Witness("D0", "m", 208, 8, "l", 4, (1, 2), "k", (1, 3))
    assert missing(23, 25).findings[0].witness == Witness("D0", "m", 215, 2, "l", 4, (1, 3), "k", (0, 3))
    # With three tokens the run of required bytes is shorter.
    assert "(bytes 16–23 of 36)" in first(missing(16, 24, tokens=3))


def test_several_tokens_a_state_in_words() -> None:
    compressed = HEADS | {"tokens_per_state": 2}
    answer = judged(ATTENTION, [compressed], [(0, 192, 12), (16, 208, 8)], ([0], [4]), 4, 384)
    assert first(answer) == "D0, l, page 4: tokens 2–3 of part k, unit 1 (bytes 12–15 of 24) are never written"


def test_a_page_past_the_prompt_in_words() -> None:
    group = {"kind": "attention", "block_tokens": 2, "pages_per_block": 2}
    answer = judged(group, [OPAQUE], [(0, 80, 10)], ([0], [4]), 1, 160)
    assert first(answer) == "D0, l, page 9: token 1 lies past the prompt's 1 tokens, but the page does not end zero"


def test_waste_in_words() -> None:
    answer = judged(ATTENTION, [OPAQUE], [(0, 40, 10), (0, 40, 4)], ([0], [4]), 4, 80)
    assert first(answer) == "D0.g: 14 bytes are moved for 10 useful ones (4 bytes moved twice)"


def test_more_counts_pages_and_layers_once() -> None:
    two: list[dict[str, Any]] = [OPAQUE | {"page_stride": 20}, OPAQUE | {"name": "m", "offset": 10, "page_stride": 20}]
    answer = judged(ATTENTION, two, [(0, 85, 2)], ([0, 1], [4, 5]), 8, 160)
    assert first(answer) == (
        "D0, l, page 4: tokens 0–3 (bytes 0–4 of 10) are never written; and 3 more pages, 2 layers in all"
    )
    answer = judged(ATTENTION, [OPAQUE], [(0, 45, 2), (0, 48, 1)], ([0], [4]), 4, 80)
    assert first(answer) == "D0, l, page 4: tokens 0–3 (bytes 0–4 of 10) are never written"
