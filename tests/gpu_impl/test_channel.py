# SPDX-License-Identifier: Apache-2.0
"""Messages with time limits: nothing waits for ever on a process that is gone or stopped."""

import socket
import time
from collections.abc import Iterator

import pytest

from kvproof.gpu_impl.channel import Channel, ChannelClosed, ChannelSlow

Ends = tuple[Channel, socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Channel(ours), theirs


def soon() -> float:
    """When to give up on what never comes."""
    return time.monotonic() + 0.1


def later() -> float:
    """Never reached, on a loaded machine either."""
    return time.monotonic() + 60


def test_a_message_arrives_whole(ends: Ends) -> None:
    sender, other = ends
    sender.send({"blob": b"x" * 50_000}, later())
    receiver = Channel(other)
    assert receiver.readable(0)
    assert receiver.receive(later()) == {"blob": b"x" * 50_000}
    assert not receiver.readable(0)


def test_a_peer_that_takes_nothing_does_not_block(ends: Ends) -> None:
    with pytest.raises(ChannelSlow):
        ends[0].send(b"x" * 50_000_000, soon())


@pytest.mark.parametrize("sent", [b"", b"\x05\0\0\0", b"\x05\0\0\0\0\0\0\0abc"])
def test_a_peer_that_stops_sending_does_not_block(ends: Ends, sent: bytes) -> None:
    ends[1].sendall(sent)
    with pytest.raises(ChannelSlow):
        ends[0].receive(soon())


@pytest.mark.parametrize("sent", [b"", b"\x05\0\0\0", b"\x05\0\0\0\0\0\0\0abc"])
def test_a_peer_that_is_gone_is_told_apart(ends: Ends, sent: bytes) -> None:
    ends[1].sendall(sent)
    ends[1].close()
    with pytest.raises(ChannelClosed):
        ends[0].receive(later())
    with pytest.raises(ChannelClosed):
        ends[0].send(b"x", later())


def test_a_limit_that_has_passed_is_late_already(ends: Ends) -> None:
    with pytest.raises(ChannelSlow):
        ends[0].send(b"x", time.monotonic() - 1)
