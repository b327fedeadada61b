# SPDX-License-Identifier: Apache-2.0
"""A thin wrapper over a NIXL agent: no progress thread, bounded waits, one kind of exception.

NIXL's progress threads spin on a core each, so there are none: whoever waits must call ``progress``. A peer that reads
from this agent's memory needs it to make progress too, or the connection is never set up.
"""

from __future__ import annotations

import importlib
import time
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvproof.gpu_impl.errors import NixlFailure
from kvproof.gpu_impl.validate import Ids

Rows = NDArray[np.uint64]
"""Shape ``[rows, 5]``: address, bytes, device, stride, count."""

POLL_SECONDS = 0.0002

_WORDS = {
    "nixlNotFoundError": "NIXL does not know a memory range, agent or backend (details are in its log)",
    "nixlInvalidParamError": "NIXL refused the arguments",
    "nixlRemoteDisconnectError": "the connection to the other process is lost, or an address is not mapped",
    "nixlBackendError": "the UCX backend failed",
    "nixlMismatchError": "the metadata of the other agent cannot be used",
    "nixlNotAllowedError": "NIXL does not allow this here",
    "nixlRepostActiveError": "the transfer is still running",
    "nixlNotPostedError": "the transfer was not started",
    "nixlNotSupportedError": "NIXL does not support this",
    "nixlCancelledError": "the transfer was cancelled",
}


class PreparedList:
    """A descriptor list that NIXL holds ready."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle


class Agent:
    """One NIXL agent with the UCX backend."""

    def __init__(self, name: str) -> None:
        api = importlib.import_module("nixl._api")
        self.version = version("nixl")
        config = api.nixl_agent_config(enable_prog_thread=False, backends=["UCX"])
        self._agent: Any = self._call("starting the agent", api.nixl_agent, name, config)
        if "UCX" not in self._agent.backends:
            raise NixlFailure("starting the agent", "the UCX plugin is missing")

    def register(self, address: int, length: int, memory: str) -> Any:
        """Register one storage; the result is what ``deregister`` takes."""
        return self._call(
            "registering memory", self._agent.register_memory, [(address, length, 0, "")], memory, backends=["UCX"]
        )

    def deregister(self, registration: Any) -> None:
        """Undo ``register``."""
        self._call("deregistering memory", self._agent.deregister_memory, registration)

    def metadata(self) -> bytes:
        """What another agent needs to read from this one's registered memory."""
        return bytes(self._call("exporting metadata", self._agent.get_agent_metadata))

    def connect(self, metadata: bytes) -> str:
        """Load another agent's metadata; its name."""
        name = self._call("loading metadata", self._agent.add_remote_agent, metadata)
        return name.decode() if isinstance(name, bytes) else str(name)

    def disconnect(self, name: str) -> None:
        """Forget another agent and its memory."""
        self._call("forgetting the other agent", self._agent.remove_remote_agent, name)

    def prepare(self, name: str, rows: Rows, memory: str) -> PreparedList:
        """Prepare a list of another agent's descriptors, or of one's own (``name`` empty)."""
        handle = self._call("preparing a descriptor list", self._agent.prep_xfer_dlist, name, rows, memory, ["UCX"])
        if handle is None:
            raise NixlFailure("preparing a descriptor list", "NIXL did not take the rows")
        return PreparedList(handle)

    def release(self, prepared: PreparedList) -> None:
        """Free a prepared list, which must not be used after."""
        self._call("releasing a descriptor list", prepared.handle.release)

    def read(self, target: PreparedList, target_ids: Ids, source: PreparedList, source_ids: Ids, until: float) -> None:
        """Read descriptors of another agent into one's own, and wait for it, up to ``until`` (time.monotonic)."""
        if target_ids.dtype != np.int32 or source_ids.dtype != np.int32:  # NIXL would cast anything else silently
            raise NixlFailure("making the transfer", f"ids are {source_ids.dtype} and {target_ids.dtype}, not int32")
        handle = self._call(
            "making the transfer",
            self._agent.make_prepped_xfer,
            "READ",
            target.handle,
            target_ids,
            source.handle,
            source_ids,
            backends=["UCX"],
        )
        state = self._call("starting the transfer", self._agent.transfer, handle)
        while state == "PROC":
            if time.monotonic() > until:
                raise NixlFailure("waiting for the transfer", "it is still running at the deadline")
            time.sleep(POLL_SECONDS)
            state = self._call("waiting for the transfer", self._agent.check_xfer_state, handle)
        if state != "DONE":
            raise NixlFailure("waiting for the transfer", f"NIXL answered {state}")
        self._call("releasing the transfer", handle.release)

    def progress(self) -> None:
        """Answer what other agents asked for."""
        self._call("making progress", self._agent.get_new_notifs)

    def _call(self, step: str, function: Any, *arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except Exception as error:  # NIXL's own have no common base, and its wrapper lets many others through
            name = type(error).__name__
            raise NixlFailure(step, f"{_WORDS.get(name, str(error) or 'it failed')} ({name})") from error
