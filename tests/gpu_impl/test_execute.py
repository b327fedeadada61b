# SPDX-License-Identifier: Apache-2.0
import pytest

torch = pytest.importorskip("torch")

from small_cases import reverse_geometry  # noqa: E402
from transfers import planned, spans  # noqa: E402

from kvproof.gpu_impl.execute import execute_on_tensors  # noqa: E402
from kvproof.gpu_impl.tables import plan  # noqa: E402
from kvproof.spec.place import Place  # noqa: E402


def memory() -> dict[str, "torch.Tensor"]:
    return {name: torch.arange(start, start + 10, dtype=torch.uint8) for name, start in (("P/a", 100), ("D/b", 200))}


def test_copies_read_what_was_there_before() -> None:
    found = memory()
    swap = planned(spans(("D/b", 0, "D/b", 5, 5), ("D/b", 5, "D/b", 0, 5)))
    execute_on_tensors(swap, found)
    assert found["D/b"].tolist() == [205, 206, 207, 208, 209, 200, 201, 202, 203, 204]


def test_zeroes_come_last() -> None:
    found = memory()
    execute_on_tensors(planned(spans(("P/a", 0, "D/b", 2, 4)), Place("D/b", 4, 3)), found)
    assert found["D/b"].tolist() == [200, 201, 100, 101, 0, 0, 0, 207, 208, 209]
    assert found["P/a"].tolist() == list(range(100, 110))


@pytest.mark.parametrize(
    "wrong",
    [
        planned(spans(("P/a", 0, "D/b", 0, 1), ("P/a", 8, "D/b", 0, 3))),
        planned(spans(("P/a", 0, "D/b", -1, 1))),
        planned(spans(("P/a", 0, "D/b", 0, 1)), Place("D/b", 9, 2)),
        planned([(Place("P/a", 0, 2), Place("D/b", 0, 1))]),
    ],
)
def test_nothing_is_written_if_a_span_does_not_fit(wrong: object) -> None:
    found = memory()
    with pytest.raises(IndexError):
        execute_on_tensors(wrong, found)  # type: ignore[arg-type]
    assert found["D/b"].tolist() == list(range(200, 210))


def test_a_case_by_its_own_plan() -> None:
    world = reverse_geometry()
    found = {
        f"{worker.name}/{storage.name}": torch.full((storage.bytes,), 1 + index, dtype=torch.uint8)
        for index, worker in enumerate(world.worker)
        for storage in worker.storages
    }
    execute_on_tensors(plan(world), found)
    pages = found["D0/host"].reshape(100, 64)
    assert pages[60:63].unique().tolist() == [1]
    assert pages[63].unique().tolist() == [0]
    assert int((pages == 2).sum()) == 96 * 64
