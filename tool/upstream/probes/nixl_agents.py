# SPDX-License-Identifier: Apache-2.0
"""NIXL agents that write down what a connector asks of them: one that copies by itself, one that is NIXL.

Both take the calls that vLLM's connectors make. Memory kinds are noted as the connector names them. There is no device
here: bytes that the connector calls VRAM lie in CPU memory, which NIXL itself is told.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

Row = tuple[int, int, int, int, int]
"""Address, bytes, device, stride, count."""

LOCAL = ("NIXL_INIT_AGENT", "")
"""Names under which an agent prepares lists of its own memory."""


class NixlRefused(Exception):
    """The fake agent refuses what NIXL refuses as well (its NIXL_ERR_INVALID_PARAM and NIXL_ERR_NOT_FOUND)."""


class Prepared(SimpleNamespace):
    """A prepared list: ``agent`` whose memory it is, ``memory`` kind, ``rows``."""

    agent: str
    memory: str
    rows: list[Row]


class Posted(SimpleNamespace):
    """A posted transfer: ``op``, and ``local`` and ``remote`` lists with the ids chosen from them."""

    op: str
    local: Prepared
    local_ids: list[int]
    remote: Prepared
    remote_ids: list[int]


def rows_of(described: Any) -> list[Row]:
    """Rows of any of the shapes that NIXL takes: (address, bytes, device), or with stride and count behind."""
    table = np.asarray(described, dtype=np.uint64)
    if table.size == 0:
        return []
    if table.shape[1] == 3:
        return [(address, size, device, 0, 1) for address, size, device in table.tolist()]
    return [(row[0], row[1], row[2], row[3], row[4]) for row in table.tolist()]


def spans(rows: Sequence[Row], ids: Sequence[int]) -> list[tuple[int, int]]:
    """Address and length of the descriptors with these ids; ids count through the rows. Raises IndexError."""
    table = np.array(rows, dtype=np.uint64).reshape(-1, 5)
    ends = np.cumsum(table[:, 4].astype(np.int64))
    chosen = np.asarray(ids, dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    if len(chosen) and (chosen.min() < 0 or chosen.max() >= total):
        outside = [int(number) for number in chosen if not 0 <= number < total]
        raise IndexError(f"descriptor id {outside[0]} of a list of {total}")
    row = np.searchsorted(ends, chosen, side="right")
    nth = (chosen - (ends[row] - table[row, 4].astype(np.int64))).astype(np.uint64)
    return list(zip((table[row, 0] + nth * table[row, 3]).tolist(), table[row, 1].tolist(), strict=True))


class FakeAgent:
    """Copies within the process. It refuses what NIXL refuses: memory that was not registered, unequal lengths."""

    living: ClassVar[dict[str, FakeAgent]] = {}
    """By name, as their metadata is; whoever builds agents clears it between cases."""

    def __init__(self, name: str, config: Any = None) -> None:
        self.name = name
        self.registered: list[tuple[int, int, int, str]] = []
        self.posted: list[Posted] = []
        self._handles: dict[int, Any] = {}
        self._notes: dict[str, list[bytes]] = {}
        self._noting = threading.Lock()
        FakeAgent.living[name] = self

    def create_backend(self, *args: Any, **options: Any) -> None:
        """Nothing: there is one way to copy."""

    def get_reg_descs(self, described: Any, mem_type: str | None = None) -> list[tuple[int, int, int, str]]:
        return [(row[0], row[1], row[2], str(mem_type)) for row in described]

    def register_memory(self, described: list[tuple[int, int, int, str]], *args: Any, **options: Any) -> Any:
        self.registered.extend(described)
        return described

    def deregister_memory(self, described: Any, *args: Any, **options: Any) -> None:
        """Nothing: what was registered stays on record."""

    def get_agent_metadata(self) -> bytes:
        return self.name.encode()

    def add_remote_agent(self, metadata: bytes) -> str:
        return metadata.decode()

    def remove_remote_agent(self, name: str) -> None:
        """Nothing: names are enough to find an agent."""

    def check_remote_metadata(self, name: str, *args: Any) -> bool:
        return name in FakeAgent.living

    def get_xfer_descs(self, described: Any, mem_type: str | None = None) -> tuple[str | None, list[Row]]:
        return mem_type, rows_of(described)

    def prep_xfer_dlist(self, agent: str, described: Any, mem_type: str | None = None, **options: Any) -> int:
        kind, rows = described if isinstance(described, tuple) else (mem_type, rows_of(described))
        owner = self if agent in LOCAL else FakeAgent.living[agent]
        held = sorted((start, start + size) for start, size, _, memory in owner.registered if memory == kind)
        if not rows:
            raise NixlRefused("NOT_FOUND: an empty list")
        for address, size, _, stride, count in rows:
            end = address + stride * max(0, count - 1) + size
            if count and not any(start <= address and end <= stop for start, stop in held):
                raise NixlRefused(f"NOT_FOUND: [{address}, {end}) is not registered with {owner.name} as {kind}")
        return self._keep(Prepared(agent=owner.name, memory=str(kind), rows=rows))

    def make_prepped_xfer(
        self, op: str, local: int, local_ids: Any, remote: int, remote_ids: Any, notif_msg: Any = b"", **options: Any
    ) -> int:
        post = _post(op, self._handles[local], local_ids, self._handles[remote], remote_ids)
        try:
            ours, theirs = spans(post.local.rows, post.local_ids), spans(post.remote.rows, post.remote_ids)
        except IndexError as error:
            raise NixlRefused(f"INVALID_PARAM: {error}") from None
        if not ours:
            raise NixlRefused("INVALID_PARAM: no descriptors")
        if [size for _, size in ours] != [size for _, size in theirs]:
            raise NixlRefused("INVALID_PARAM: descriptors that are paired differ in length")
        return self._keep((post, ours, theirs, notif_msg))

    def transfer(self, handle: int, *args: Any) -> str:
        post, ours, theirs, note = self._handles[handle]
        self.posted.append(post)
        for (near, size), (far, _) in zip(ours, theirs, strict=True):
            ctypes.memmove(*((near, far) if post.op == "READ" else (far, near)), size)
        if note:
            self.send_notif(post.remote.agent, note)
        return "DONE"

    def check_xfer_state(self, handle: int) -> str:
        return "DONE"

    def get_xfer_telemetry(self, handle: int) -> SimpleNamespace:
        return SimpleNamespace(xferDuration=1, postDuration=1, totalBytes=1, descCount=1)

    def release_xfer_handle(self, handle: int) -> None:
        self._handles.pop(handle, None)

    def release_dlist_handle(self, handle: int) -> None:
        self._handles.pop(handle, None)

    def send_notif(self, agent: str, notif_msg: Any = b"", *args: Any) -> None:
        note = notif_msg.encode() if isinstance(notif_msg, str) else notif_msg
        FakeAgent.living[agent].note(self.name, note)

    def get_new_notifs(self, *args: Any) -> dict[str, list[bytes]]:
        with self._noting:
            notes, self._notes = self._notes, {}
        return notes

    def note(self, sender: str, note: bytes) -> None:
        """Take a notice. Connectors send and read them in several threads."""
        with self._noting:
            self._notes.setdefault(sender, []).append(note)

    def _keep(self, what: Any) -> int:
        handle = len(self._handles) + 1
        while handle in self._handles:
            handle += 1
        self._handles[handle] = what
        return handle


def real_agent() -> type[Any]:
    """NIXL's own agent, writing down what it is asked. Raises ImportError where there is no NIXL."""
    from nixl._api import nixl_agent  # only this way of moving bytes needs it

    class RealAgent(nixl_agent):  # type: ignore[misc]
        def __init__(self, name: str, config: Any = None, *args: Any, **options: Any) -> None:
            self.registered: list[tuple[int, int, int, str]] = []
            self.posted: list[Posted] = []
            self._said: dict[int, tuple[Any, str, list[Row]]] = {}
            self._lists: dict[int, tuple[Any, Prepared]] = {}
            self._posts: dict[int, tuple[Any, Posted]] = {}
            super().__init__(name, config, *args, **options)

        def get_reg_descs(self, described: Any, mem_type: str | None = None) -> Any:
            if not isinstance(described, (list, np.ndarray)):
                return super().get_reg_descs(described, mem_type)  # NIXL's own form, on its way back to itself
            self._registering = [(row[0], row[1], row[2], str(mem_type)) for row in described]
            return super().get_reg_descs(described, "DRAM")

        def register_memory(self, described: Any, *args: Any, **options: Any) -> Any:
            self.registered.extend(self._registering)
            self._registering = []
            return super().register_memory(described, *args, **options)

        def get_xfer_descs(self, described: Any, mem_type: str | None = None) -> Any:
            if not isinstance(described, (list, np.ndarray)):
                return super().get_xfer_descs(described, mem_type)
            made = super().get_xfer_descs(described, "DRAM")
            self._said[id(made)] = (made, str(mem_type), rows_of(described))
            return made

        def prep_xfer_dlist(self, agent: str, described: Any, mem_type: str | None = None, **options: Any) -> Any:
            kind, rows = self._said[id(described)][1:] if id(described) in self._said else (mem_type, None)
            rows = rows_of(described) if rows is None else rows
            handle = super().prep_xfer_dlist(agent, described, mem_type="DRAM", **options)
            owner = self.name if agent in LOCAL else agent.decode() if isinstance(agent, bytes) else agent
            self._lists[id(handle)] = (handle, Prepared(agent=owner, memory=str(kind), rows=rows))
            return handle

        def make_prepped_xfer(
            self, op: str, local: Any, local_ids: Any, remote: Any, remote_ids: Any, *args: Any, **options: Any
        ) -> Any:
            post = _post(op, self._lists[id(local)][1], local_ids, self._lists[id(remote)][1], remote_ids)
            handle = super().make_prepped_xfer(op, local, local_ids, remote, remote_ids, *args, **options)
            self._posts[id(handle)] = (handle, post)
            return handle

        def transfer(self, handle: Any, *args: Any, **options: Any) -> Any:
            self.posted.append(self._posts[id(handle)][1])
            return super().transfer(handle, *args, **options)

        def forget(self) -> None:
            """Let go of handles: they would keep the agent, its threads and its memory alive."""
            self._said, self._lists, self._posts = {}, {}, {}

    return RealAgent


def _post(op: str, local: Prepared, local_ids: Any, remote: Prepared, remote_ids: Any) -> Posted:
    return Posted(
        op=op,
        local=local,
        local_ids=[int(number) for number in local_ids],
        remote=remote,
        remote_ids=[int(number) for number in remote_ids],
    )
