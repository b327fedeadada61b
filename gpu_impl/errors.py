# SPDX-License-Identifier: Apache-2.0
"""What can go wrong with a transfer, each in words for the person who asked for it."""

from __future__ import annotations


class TransferError(Exception):
    """Base of all of them. ``run`` raises them, ``run_many`` yields them (except ``MissingExtra``)."""


class MissingExtra(TransferError):
    """torch or NIXL is not installed, or cannot be imported."""

    def __init__(self, detail: str) -> None:
        super().__init__(f"a transfer needs kvproof[transfer], which is not complete here: {detail}")


class DeviceMissing(TransferError):
    """A device was asked for that this machine does not have."""


class TransferTooLarge(TransferError):
    """The storages of the case hold more bytes than the limit."""


class Unsupported(TransferError):
    """Well-formed, but this implementation does not do it."""


class ProgramInvalid(TransferError):
    """Descriptor lists that must not reach NIXL: it would refuse them late, or accept them silently."""


class PlanInvalid(TransferError):
    """An expected plan (or required or owed place) that does not fit the case's storages."""


class TransferUnfinished(TransferError):
    """The transfer did not finish: a deadline, a process that ended, or an error of NIXL."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the transfer did not finish: {reason}")


class NixlFailure(Exception):
    """A NIXL call failed. ``step`` is what was being done, the text says what NIXL made of it."""

    def __init__(self, step: str, words: str) -> None:
        super().__init__(f"{step}: {words}")
