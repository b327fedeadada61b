# SPDX-License-Identifier: Apache-2.0
"""Messages between the parent and its two processes: pickled, over a socket of their own, never without a time limit.

NIXL and UCX log to standard output, so that cannot carry them.
"""

from __future__ import annotations

import pickle
import select
import socket
import time
from typing import Any

_LENGTH_BYTES = 8
_RECEIVE_BYTES = 2**20


class ChannelClosed(Exception):
    """The other end is gone."""


class ChannelSlow(Exception):
    """The other end did not send, or did not take, a message in time."""


class Channel:
    """One end. Times are ``time.monotonic`` seconds; None waits for ever: only a child may, it dies with its parent."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def fileno(self) -> int:
        """For ``select``."""
        return self._end.fileno()

    def readable(self, seconds: float) -> bool:
        """A message, or the end of them, has begun to arrive."""
        return bool(select.select([self._end], [], [], seconds)[0])

    def send(self, message: object, until: float | None) -> None:
        """Send one message."""
        body = pickle.dumps(message, protocol=5)
        try:
            for piece in (len(body).to_bytes(_LENGTH_BYTES, "little"), body):
                self._limit(until)
                self._end.sendall(piece)
        except TimeoutError:
            raise ChannelSlow from None
        except OSError as error:
            raise ChannelClosed(str(error)) from None

    def receive(self, until: float | None) -> Any:
        """Receive one message."""
        length = int.from_bytes(self._exactly(_LENGTH_BYTES, until), "little")
        return pickle.loads(self._exactly(length, until))

    def close(self) -> None:
        """Close this end."""
        self._end.close()

    def _exactly(self, count: int, until: float | None) -> bytes:
        pieces = bytearray()
        while len(pieces) < count:
            try:
                self._limit(until)
                piece = self._end.recv(min(count - len(pieces), _RECEIVE_BYTES))
            except TimeoutError:
                raise ChannelSlow from None
            except OSError as error:
                raise ChannelClosed(str(error)) from None
            if not piece:
                raise ChannelClosed("end of messages")
            pieces += piece
        return bytes(pieces)

    def _limit(self, until: float | None) -> None:
        if until is None:
            self._end.settimeout(None)
            return
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._end.settimeout(left)
