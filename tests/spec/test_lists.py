# SPDX-License-Identifier: Apache-2.0
"""The judge's known answers on descriptor lists: the padded tail as NIXL sees it, and what can be wrong with it."""

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from kvproof.spec.decode import BadInput, decode_plan
from kvproof.spec.descriptors import DescriptorFile
from kvproof.spec.judge import lists as module
from kvproof.spec.judge.judge import judge_lists
from kvproof.spec.judge.verdict import Finding, Judgement, Witness
from kvproof.spec.place import Place
from kvproof.spec.validate import load_case

PADDED_TAIL = Path(__file__).parents[2] / "cases" / "regressions" / "hisparse-padded-tail.toml"
CASE = load_case(PADDED_TAIL.read_bytes())

MAIN, INDEX, HOST, FAR = 0x7F00_0000_0000, 0x7F00_0001_0000, 0x10_0000, 0x20_0000


def prepared(memory: str, base: int, size: int) -> dict[str, Any]:
    return {"memory": memory, "rows": [[base, size, 0, size, 100]], "sections": {"attention": [0, 100]}}


def lists() -> dict[str, Any]:
    """One transfer from VRAM to DRAM, one from VRAM to VRAM; on P one list of both regions, ids 0 to 199."""
    source = prepared("VRAM", MAIN, 64)
    source["rows"].append([INDEX, 128, 0, 128, 100])
    source["sections"]["attention"] = [0, 200]
    common = {"producer": "P0", "consumer": "D0", "op": "READ"}
    return {
        "format": 1,
        "case": "hisparse-padded-tail",
        "bases": {"P0": {"main": MAIN, "index": INDEX}, "D0": {"host": HOST, "index": FAR}},
        "transfers": [
            common
            | {
                "source": source,
                "target": prepared("DRAM", HOST, 64),
                "source_ids": [20, 21, 22],
                "target_ids": [30, 31, 32],
            },
            common
            | {
                "source": deepcopy(source),
                "target": prepared("VRAM", FAR, 128),
                "source_ids": [120, 121, 122],
                "target_ids": [40, 41, 42],
            },
        ],
        "zeroes": [],
    }


def judged(change: Callable[[dict[str, Any]], Any] = lambda raw: None) -> Judgement:
    raw = lists()
    change(raw)
    decoded = decode_plan(json.dumps(raw).encode())
    assert isinstance(decoded, DescriptorFile)
    return judge_lists(CASE, decoded)


def with_ids(side: str, ids: list[int], transfer: int = 0) -> Judgement:
    return judged(lambda raw: raw["transfers"][transfer].update({f"{side}_ids": ids}))


def told(answer: Judgement, law: str, subject: str | None = None) -> Finding:
    [finding] = [one for one in answer.findings if one.law == law and subject in (None, one.subject)]
    return finding


def bad(change: Callable[[dict[str, Any]], Any]) -> str:
    with pytest.raises(BadInput) as caught:
        judged(change)
    return str(caught.value)


def test_the_lists_of_the_padded_tail_are_lawful() -> None:
    answer = judged()
    assert (answer.verdict, answer.findings) == ("lawful", ())
    assert answer.ratios == {"D0.host": (192, 192), "D0.idx": (384, 384)}
    assert answer.not_applicable == ("folding",)


def test_the_order_of_ids_does_not_matter_as_long_as_they_pair() -> None:
    def shuffle(raw: dict[str, Any]) -> None:
        raw["transfers"][0]["source_ids"] = [22, 20, 21]
        raw["transfers"][0]["target_ids"] = [32, 30, 31]

    assert judged(shuffle).verdict == "lawful"


def test_rows_may_be_cut_otherwise() -> None:
    def cut(raw: dict[str, Any]) -> None:
        # Two descriptors apart, then the rest from page 22 on: ids 0, 1, 2 are pages 20, 21, 22.
        raw["transfers"][0]["source"] = {
            "memory": "VRAM",
            "rows": [[MAIN + 20 * 64, 64, 0, 0, 1], [MAIN + 21 * 64, 64, 0, 64, 1], [MAIN + 22 * 64, 64, 0, 64, 78]],
        }
        raw["transfers"][0]["source_ids"] = [0, 1, 2]

    assert judged(cut).verdict == "lawful"


def test_without_sections_ids_are_not_checked_in_full() -> None:
    answer = judged(lambda raw: raw["transfers"][1]["target"].pop("sections"))
    assert (answer.verdict, answer.not_applicable) == ("lawful", ("folding", "descriptor-ids"))

    def doubled(raw: dict[str, Any]) -> None:
        raw["transfers"][1]["target"].pop("sections")
        raw["transfers"][1]["target_ids"] = [40, 41, 41]

    answer = judged(doubled)
    assert "descriptor-ids" in answer.laws
    assert answer.not_applicable == ("folding",)


def test_a_wrong_source_id() -> None:
    answer = with_ids("source", [21, 22, 23])
    assert (answer.verdict, answer.laws) == ("corrupt", ("alignment",))
    assert answer.corrupt == (Place("D0/host", 1920, 192),)
    assert told(answer, "alignment").words.startswith(
        "D0, layers.0.attn, page 30: tokens 0–63 come from P0 page 21, which holds tokens 64–127"
    )


@pytest.mark.parametrize(("position", "delta"), [(i, d) for i in range(3) for d in (-1, 1)])
@pytest.mark.parametrize("side", ["source", "target"])
def test_no_id_may_be_another(side: str, position: int, delta: int) -> None:
    ids = {"source": [20, 21, 22], "target": [30, 31, 32]}[side]
    ids[position] += delta
    assert with_ids(side, ids).verdict == "corrupt"


@pytest.mark.parametrize(("side", "wrong", "total"), [("source", 200, 200), ("target", 100, 100), ("target", -1, 100)])
def test_an_id_out_of_range(side: str, wrong: int, total: int) -> None:
    ids = {"source": [20, 21], "target": [30, 31]}[side]
    answer = with_ids(side, [*ids, wrong])
    assert answer.laws == ("coverage", "descriptor-ids")
    worker = {"source": "P0", "target": "D0"}[side]
    assert told(answer, "descriptor-ids") == Finding(
        "descriptor-ids", "tables", f"{worker}: id {wrong} is not below {total}, its list's length"
    )
    assert answer.corrupt == (Place("D0/host", 32 * 64, 64),)


def test_a_target_id_twice() -> None:
    answer = with_ids("target", [30, 31, 31])
    assert answer.laws == ("coverage", "alignment", "single-writer", "descriptor-ids")
    assert told(answer, "descriptor-ids").words == "D0: descriptor 31 is written twice"
    assert answer.contested == (Place("D0/host", 31 * 64, 64),)


def test_id_lists_of_unequal_lengths() -> None:
    answer = with_ids("source", [20, 21, 22, 23])
    assert (answer.verdict, answer.laws) == ("hazard", ("parity",))
    assert told(answer, "parity").words == "4 source ids are paired with 3 target ids"
    assert with_ids("target", [30, 31]).laws == ("coverage", "parity")


def test_descriptors_of_unequal_lengths() -> None:
    def shorter(raw: dict[str, Any]) -> None:
        raw["transfers"][0]["target"]["rows"][0][1] = 63

    answer = judged(shorter)
    assert (answer.verdict, answer.laws) == ("corrupt", ("coverage", "parity"))
    assert told(answer, "parity").words == (
        "source descriptor 20 (64 bytes of VRAM, in a VRAM list) is paired with "
        "target descriptor 30 (63 bytes of DRAM, in a DRAM list)"
    )
    assert answer.corrupt == tuple(Place("D0/host", page * 64 + 63, 1) for page in (30, 31, 32))


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_list_of_the_wrong_memory_kind(side: str) -> None:
    def other(raw: dict[str, Any]) -> None:
        prepared = raw["transfers"][0][side]
        prepared["memory"] = {"VRAM": "DRAM", "DRAM": "VRAM"}[prepared["memory"]]

    answer = judged(other)
    assert (answer.verdict, answer.laws) == ("hazard", ("parity",))


@pytest.mark.parametrize(
    ("address", "length"),
    [(MAIN + 6400 - 63, 64), (MAIN - 1, 64), (0, 64), (2**64 - 1, 64), (2**80, 64), (MAIN, 6401)],
)
def test_an_address_outside_every_storage(address: int, length: int) -> None:
    def moved(raw: dict[str, Any]) -> None:
        raw["transfers"][0]["source"]["rows"] = [[address, length, 0, 0, 1]]
        raw["transfers"][0]["source"].pop("sections")
        raw["transfers"][0].update(source_ids=[0, 0, 0])

    answer = judged(moved)
    assert (answer.verdict, answer.laws) == ("corrupt", ("coverage", "bounds"))
    assert told(answer, "bounds", "plan") == Finding(
        "bounds",
        "plan",
        f"P0: descriptor 0, {length} bytes at {address}, lies in no storage of it",
        True,
        Witness("P0", "no storage", address, length),
    )
    assert told(answer, "bounds", "tables") == Finding(
        "bounds", "tables", f"P0: row 0, {length} bytes at {address}, lies in no storage of it"
    )


def test_a_descriptor_over_two_storages_lies_in_none() -> None:
    def touching(raw: dict[str, Any]) -> None:
        raw["bases"]["P0"]["index"] = MAIN + 6400
        raw["transfers"][1]["source"]["rows"][1][0] = MAIN + 6400
        raw["transfers"][0]["source"]["rows"][1][0] = MAIN + 6400

    def astride(raw: dict[str, Any]) -> None:
        touching(raw)
        raw["transfers"][0]["source"]["rows"].append([MAIN + 6400 - 32, 64, 0, 0, 1])
        raw["transfers"][0]["source_ids"] = [200, 21, 22]

    assert judged(touching).verdict == "lawful"
    assert judged(astride).laws == ("coverage", "bounds")


def test_sections_that_overlap() -> None:
    def sections(*ranges: list[int]) -> Judgement:
        names = ("attention", "ssm", "replicated-ssm")
        return judged(lambda raw: raw["transfers"][0]["source"].update(sections=dict(zip(names, ranges, strict=False))))

    assert sections([0, 100], [100, 200]).verdict == "lawful"
    answer = sections([0, 101], [100, 200])
    assert (answer.verdict, answer.laws) == ("hazard", ("descriptor-ids",))
    assert told(answer, "descriptor-ids").words == "P0: sections attention and ssm overlap"
    assert sections([0, 200], [50, 50]).verdict == "lawful"
    assert told(sections([0, 201]), "descriptor-ids").words == "P0: section attention is [0, 201) of 200 ids"
    assert [finding.words for finding in sections([5, 4]).findings] == [
        "P0: section attention is [5, 4) of 200 ids",
        "source id 20 of group host (attention) is not in the list's section attention",
    ]


def test_zeroes_are_judged_with_the_lists() -> None:
    zero = {"target": ["D0", "host", 1920], "bytes": 1}
    assert judged(lambda raw: raw["zeroes"].append(zero)).laws == ("single-writer", "zeroing")
    many = zero | {"count": 2**40}
    assert bad(lambda raw: raw["zeroes"].append(many)) == (
        "the plan has 1099511627776 single spans; at most 1000000 are judged"
    )


def test_bases_that_do_not_fit_the_case() -> None:
    assert bad(lambda raw: raw["bases"].update(X0={})) == "bases: the case has no worker 'X0'; it has P0, D0"
    assert bad(lambda raw: raw["bases"]["P0"].update(x=1)) == (
        "bases.P0: the case has no storage 'x'; it has main, index"
    )
    assert bad(lambda raw: raw["bases"]["P0"].update(main=2**64 - 6399)) == (
        f"bases.P0.main: 6400 bytes at {2**64 - 6399} pass 2^64 (W5)"
    )
    assert bad(lambda raw: raw["bases"]["P0"].update(index=MAIN + 6399)) == (
        "bases.P0: P0/main and P0/index share addresses (W12)"
    )
    assert judged(lambda raw: raw["bases"]["D0"].update(index=HOST + 6400)).laws == ("coverage", "bounds")


def test_transfers_that_do_not_fit_the_case() -> None:
    assert bad(lambda raw: raw["transfers"][0].update(producer="X0")) == (
        "transfers[0].producer: 'X0' is no producer of the case with bases"
    )
    assert bad(lambda raw: raw["transfers"][1].update(consumer="P0")) == (
        "transfers[1].consumer: 'P0' is no consumer of the case with bases"
    )
    assert bad(lambda raw: raw["bases"].pop("P0")) == (
        "transfers[0].producer: 'P0' is no producer of the case with bases"
    )


def test_lists_have_a_limit_of_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SPANS_LIMIT", 6)
    assert judged().verdict == "lawful"
    monkeypatch.setattr(module, "SPANS_LIMIT", 5)
    assert bad(lambda raw: None) == "the lists have more than 5 target ids, the most that are judged"


def test_no_transfer_moves_nothing() -> None:
    answer = judged(lambda raw: raw.update(transfers=[]))
    assert answer.laws == ("coverage",)
    assert answer.ratios == {}


def test_each_law_is_told_once_for_all_transfers() -> None:
    def wrong(raw: dict[str, Any]) -> None:
        for transfer in raw["transfers"]:
            transfer["target_ids"] = [999, 998, 997]

    answer = judged(wrong)
    assert told(answer, "descriptor-ids").words == "D0: id 999 is not below 100, its list's length"
