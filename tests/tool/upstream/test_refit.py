# SPDX-License-Identifier: Apache-2.0
import msgspec
import pytest

from kvproof.fuzzing.simplify import drop_layers, drop_request, fewer_tokens
from kvproof.spec.validate import problems
from kvproof.spec.vocabulary import Case
from kvproof.upstream.fuzzing.generate import case_of
from kvproof.upstream.fuzzing.refit import REFITTED, laid_out, refit, refitted, weight

CASES = [case_of(4, number) for number in range(80)]


def test_a_generated_case_is_fit_already() -> None:
    for case in CASES:
        assert refit(case) == case


def test_most_generated_cases_are_laid_out_already() -> None:
    """Not those with padding between blocks or a tail, and not where the case does not tell its layout."""
    same = sum(laid_out(case) == case for case in CASES)
    assert same > len(CASES) * 0.6


@pytest.mark.parametrize("case", CASES[:40], ids=lambda case: str(case.name))
def test_every_step_makes_it_simpler(case: Case) -> None:
    """So that shrinking ends; what is ill-formed, the shrinker throws away."""
    found = [candidate for step in REFITTED for candidate in step(case)]
    assert all(weight(candidate) < weight(case) for candidate in found)
    assert sum(next(problems(candidate), None) is None for candidate in found) > 3


def test_tables_follow_the_prompt() -> None:
    for case in CASES:
        for candidate in refitted(fewer_tokens)(case):
            assert candidate.request is not None
            for worker in candidate.worker:
                for group in worker.groups:
                    table = worker.tables[group.name]
                    if group.kind in ("attention", "sliding"):
                        blocks = table.first + len(table.blocks)
                        assert blocks == -(-candidate.request.tokens // (group.block_tokens or 1))
                    assert (table.cached_tokens or 0) <= candidate.request.tokens


def test_a_layer_takes_its_group_and_its_storage_along() -> None:
    case = next(case for case in CASES if len(case.worker[0].groups) > 1)
    for candidate in refitted(drop_layers)(case):
        for worker in candidate.worker:
            assert {layer.group for layer in worker.layers} == {group.name for group in worker.groups}
            assert set(worker.tables) == {group.name for group in worker.groups}


def test_a_case_without_a_request_stays_one() -> None:
    [bare] = drop_request(CASES[0])
    assert refit(bare) == bare


def test_a_page_of_less_than_its_tokens_is_no_case() -> None:
    case = next(case for case in CASES if any(not layer.parts for layer in case.worker[0].layers))
    workers = tuple(
        msgspec.structs.replace(
            worker,
            layers=tuple(
                msgspec.structs.replace(layer, page_bytes=1) if not layer.parts else layer for layer in worker.layers
            ),
        )
        for worker in case.worker
    )
    assert refit(msgspec.structs.replace(case, worker=workers)) is None
