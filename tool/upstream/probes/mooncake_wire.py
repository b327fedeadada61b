# SPDX-License-Identifier: Apache-2.0
"""The side channel between a Mooncake consumer and a producer, in memory: what ZeroMQ carries between two engines.

Each end stays in its own worker's event loop, as in the target. Nothing is decided here.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any


@dataclass(frozen=True)
class Reply:
    """One answer of the producer, as bytes, and the file and line of the target that gave it."""

    body: bytes
    place: tuple[str, int]


@dataclass
class Wire:
    """One producer's socket. ``serve`` handles a question in ``loop``, and answers through the socket it is given.

    ``error`` is what the producer raised instead of answering, ``replies`` what it answered. ``apology`` makes the
    answer that the consumer gets in the first case.
    """

    loop: asyncio.AbstractEventLoop
    serve: Callable[[bytes, Any], Awaitable[None]]
    apology: Callable[[Exception], bytes]
    replies: list[Reply] = field(default_factory=list)
    questions: list[bytes] = field(default_factory=list)
    error: Exception | None = None

    def dial(self, *_: Any, **__: Any) -> ConsumerEnd:
        """What the consumer gets when it connects. Call it in the consumer's loop."""
        return ConsumerEnd(self)


class ConsumerEnd:
    """The consumer's socket: also its context manager, as the target uses it so."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._loop = asyncio.get_running_loop()
        self._answers: asyncio.Queue[bytes] = asyncio.Queue()
        self._served: Future[None] | None = None

    def __enter__(self) -> ConsumerEnd:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        return None

    def setsockopt(self, *_: Any) -> None:
        """Time limits are the probe's affair."""

    async def send(self, question: bytes) -> None:
        """Hand a question to the producer."""
        self._wire.questions.append(question)
        self._served = asyncio.run_coroutine_threadsafe(self._answer(question), self._wire.loop)

    async def recv(self) -> bytes:
        """The next answer."""
        return await self._answers.get()

    async def _answer(self, question: bytes) -> None:
        try:
            await self._wire.serve(question, ProducerEnd(self._wire, self.deliver))
        except Exception as error:
            self._wire.error = error
            self.deliver(self._wire.apology(error))

    def deliver(self, body: bytes) -> None:
        """Put an answer where ``recv`` finds it; may be called from any thread."""
        self._loop.call_soon_threadsafe(self._answers.put_nowait, body)


class ProducerEnd:
    """The producer's socket for one question."""

    def __init__(self, wire: Wire, deliver: Callable[[bytes], None]) -> None:
        self._wire = wire
        self._deliver = deliver

    def send_multipart(self, message: tuple[bytes, bytes]) -> Awaitable[None]:
        """Answer. Not a coroutine function, so that the caller's frame is the target's own line."""
        caller: FrameType = sys._getframe(1)
        self._wire.replies.append(Reply(message[1], (caller.f_code.co_filename, caller.f_lineno)))
        self._deliver(message[1])
        return _nothing()


async def _nothing() -> None:
    return None


def place_in(tree: Path, place: tuple[str, int]) -> tuple[str, int]:
    """A place with its file relative to ``tree``, where it lies there."""
    file = Path(place[0])
    return (str(file.relative_to(tree)) if file.is_relative_to(tree) else file.name, place[1])
