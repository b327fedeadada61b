# SPDX-License-Identifier: Apache-2.0
"""Transfer engines for the Mooncake probe: both record what the connector asks for; one copies, one lets Mooncake copy.

The names are those of ``mooncake.engine.TransferEngine``, as far as the connector calls it. Addresses and lengths are
bytes; 0 is success, as in Mooncake.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, ClassVar

FIRST_PORT = 20_000
UNKNOWN_MEMORY = -1
"""What the recording engine answers where memory was not registered. Mooncake fails there too."""


@dataclass(frozen=True)
class Written:
    """One batch that a producer wrote: to which session, and a source, a target and a length for each copy."""

    session: str
    sources: tuple[int, ...]
    targets: tuple[int, ...]
    lengths: tuple[int, ...]


@dataclass
class Record:
    """What one engine was told: memory (address to bytes) that is registered now, and batches in order."""

    memory: dict[int, int] = field(default_factory=dict)
    batches: list[Written] = field(default_factory=list)

    def add(self, addresses: list[int], lengths: list[int]) -> None:
        """Register memory."""
        self.memory.update(zip(map(int, addresses), map(int, lengths), strict=True))

    def drop(self, addresses: list[int]) -> None:
        """Forget memory."""
        for address in addresses:
            self.memory.pop(int(address), None)

    def holds(self, address: int, length: int) -> bool:
        """Whether the span lies in one piece of registered memory."""
        return any(start <= address and address + length <= start + size for start, size in self.memory.items())


def written(session: str, sources: list[int], targets: list[int], lengths: list[int]) -> Written:
    """One batch as plain numbers; raises ValueError where the three lists differ in length."""
    if not len(sources) == len(targets) == len(lengths):
        raise ValueError(f"batch of {len(sources)} sources, {len(targets)} targets and {len(lengths)} lengths")
    return Written(session, tuple(map(int, sources)), tuple(map(int, targets)), tuple(map(int, lengths)))


class RecordingEngine:
    """Both ends in one process: a write is a memmove, in the order of the batch.

    What touches memory that nobody registered is recorded and not copied: it could end this process.
    """

    _ports: ClassVar[Iterator[int]] = count(FIRST_PORT)
    _by_port: ClassVar[dict[int, Record]] = {}

    def __init__(self) -> None:
        self.record = Record()
        self._port = next(self._ports)

    def initialize(self, hostname: str, metadata_server: str, protocol: str, device_name: str) -> int:
        """Take part: from now on the session ``hostname:port`` is this engine."""
        del hostname, metadata_server, protocol, device_name
        self._by_port[self._port] = self.record
        return 0

    def close(self) -> None:
        """Take no part any longer."""
        self._by_port.pop(self._port, None)

    def get_rpc_port(self) -> int:
        """The port of this engine's session."""
        return self._port

    def batch_register_memory(self, addresses: list[int], lengths: list[int]) -> int:
        """Register memory."""
        self.record.add(addresses, lengths)
        return 0

    def batch_unregister_memory(self, addresses: list[int]) -> int:
        """Forget memory."""
        self.record.drop(addresses)
        return 0

    def batch_transfer_sync_write(
        self, session: str, sources: list[int], targets: list[int], lengths: list[int]
    ) -> int:
        """Record the batch, then copy what was registered; UNKNOWN_MEMORY if something was not."""
        batch = written(session, sources, targets, lengths)
        self.record.batches.append(batch)
        peer = self._by_port.get(int(session.rpartition(":")[2]), Record())
        status = 0
        for source, target, length in zip(batch.sources, batch.targets, batch.lengths, strict=True):
            if self.record.holds(source, length) and peer.holds(target, length):
                ctypes.memmove(target, source, length)
            else:
                status = UNKNOWN_MEMORY
        return status


class LibraryEngine:
    """Mooncake's own engine over TCP, with the same record kept beside it. ``library`` is its TransferEngine class.

    Engines are used again: an engine of Mooncake's takes a second to end.
    """

    library: ClassVar[Any] = None
    _idle: ClassVar[list[Any]] = []

    def __init__(self) -> None:
        self.record = Record()
        self._engine = self._idle.pop() if self._idle else None

    def initialize(self, hostname: str, metadata_server: str, protocol: str, device_name: str) -> int:
        """Start it, if it is new. Whatever the connector's default protocol, there is no RDMA here."""
        del protocol
        if self._engine is not None:
            return 0
        self._engine = self.library()
        return int(self._engine.initialize(hostname, metadata_server, "tcp", device_name))

    def close(self) -> None:
        """Forget all memory: the library must not look into tensors that are gone."""
        if self.record.memory:
            self._engine.batch_unregister_memory(list(self.record.memory))
        self.record.memory.clear()
        self._idle.append(self._engine)

    def get_rpc_port(self) -> int:
        """The port of this engine's session."""
        return int(self._engine.get_rpc_port())

    def batch_register_memory(self, addresses: list[int], lengths: list[int]) -> int:
        """Register memory."""
        self.record.add(addresses, lengths)
        return int(self._engine.batch_register_memory(addresses, lengths))

    def batch_unregister_memory(self, addresses: list[int]) -> int:
        """Forget memory."""
        self.record.drop(addresses)
        return int(self._engine.batch_unregister_memory(addresses))

    def batch_transfer_sync_write(
        self, session: str, sources: list[int], targets: list[int], lengths: list[int]
    ) -> int:
        """Record the batch, then let Mooncake copy it."""
        self.record.batches.append(written(session, sources, targets, lengths))
        return int(self._engine.batch_transfer_sync_write(session, sources, targets, lengths))
