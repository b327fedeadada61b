# SPDX-License-Identifier: Apache-2.0
"""Interrupts at bad moments: held back until the moment is over."""

from __future__ import annotations

import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeVar

    T = TypeVar("T")


class Held:
    """For what an exception in its middle would break: an interrupt counts at the end of the block, a second at once.

    torch ends the process when Python raises inside its C++ initialisation; solvers' bindings may take an interrupt
    for an error of theirs.
    """

    def __init__(self) -> None:
        self.caught = False
        self.holding = False

    def __enter__(self) -> None:
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            return
        try:
            signal.signal(signal.SIGINT, self._note)
        except ValueError:  # not the main thread, which alone is interrupted
            return
        self.holding = True

    def __exit__(self, *_: object) -> None:
        if self.holding:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self.caught:
            raise KeyboardInterrupt

    def _note(self, *_: object) -> None:
        if self.caught:
            raise KeyboardInterrupt
        self.caught = True


def between(items: Iterator[T]) -> Iterator[T]:
    """The items; an interrupt counts between two of them."""
    nothing = object()
    while True:
        with Held():
            item = next(items, nothing)
        if item is nothing:
            return
        yield item  # type: ignore[misc]
