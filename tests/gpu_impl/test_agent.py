# SPDX-License-Identifier: Apache-2.0
"""One agent that reads from itself, and what its failures say."""

import time

import numpy as np
import pytest

from kvproof.gpu_impl.agent import Agent, Rows
from kvproof.gpu_impl.errors import NixlFailure
from kvproof.gpu_impl.validate import Ids

pytest.importorskip("nixl")

MEMORY = np.zeros(4096, dtype=np.uint8)
BASE = MEMORY.ctypes.data


@pytest.fixture(scope="module")
def agent() -> Agent:
    made = Agent("self")
    made.register(BASE, len(MEMORY), "DRAM")
    return made


def rows(*lines: tuple[int, ...]) -> Rows:
    return np.array(lines, dtype=np.uint64)


def ids(*numbers: int) -> Ids:
    return np.array(numbers, dtype=np.int32)


def later() -> float:
    return time.monotonic() + 60


def test_rows_are_strided_and_ids_count_through_them(agent: Agent) -> None:
    MEMORY[:] = np.arange(4096) % 251
    before = MEMORY.copy()
    source = agent.prepare("self", rows((BASE + 8, 16, 0, 48, 4), (BASE + 1000, 16, 0, 16, 2)), "DRAM")
    target = agent.prepare("", rows((BASE + 2000, 16, 0, 100, 3)), "DRAM")
    agent.read(target, ids(2, 0, 1), source, ids(5, 3, 0), later())
    before[2200:2216] = before[1016:1032]
    before[2000:2016] = before[152:168]
    before[2100:2116] = before[8:24]
    assert np.array_equal(MEMORY, before)
    agent.release(source)
    agent.release(target)


def test_failures_say_what_was_being_done(agent: Agent) -> None:
    good = agent.prepare("", rows((BASE, 16, 0, 16, 4)), "DRAM")
    with pytest.raises(NixlFailure, match="preparing a descriptor list: NIXL does not know a memory range"):
        agent.prepare("", rows((BASE + 4095, 16, 0, 16, 4)), "DRAM")
    with pytest.raises(NixlFailure, match="preparing a descriptor list: NIXL does not know a memory range, agent"):
        agent.prepare("nobody", rows((BASE, 16, 0, 16, 4)), "DRAM")
    with pytest.raises(NixlFailure, match="loading metadata: the metadata of the other agent cannot be used"):
        agent.connect(b"garbage")
    with pytest.raises(NixlFailure, match="making the transfer: ids are int64 and int32"):
        agent.read(good, ids(0), good, np.array([2**32]), later())  # type: ignore[arg-type]
    with pytest.raises(NixlFailure, match="making the transfer: ids are int32 and int64"):
        agent.read(good, np.array([2**32]), good, ids(0), later())  # type: ignore[arg-type]
    with pytest.raises(NixlFailure, match="making the transfer: NIXL refused the arguments"):
        agent.read(good, ids(4), good, ids(0), later())
