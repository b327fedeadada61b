# SPDX-License-Identifier: Apache-2.0
"""A plan: which bytes one request copies, and which it zeroes afterwards.

``PlanFile`` is the exchange format (docs/formats.md); ``Plan`` is what judge and simulator work on: single spans.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from kvproof.spec.place import Place
from kvproof.spec.vocabulary import Count, Format, Name, Positive

Target = tuple[Name, Name, Count]
"""Worker, storage, byte offset."""


class CopyRun(Format, frozen=True):
    """``count`` copies of ``bytes`` each, the strides apart."""

    source: Target
    target: Target
    bytes: Positive
    count: Positive = 1
    source_stride: Count = 0
    target_stride: Count = 0


class ZeroRun(Format, frozen=True):
    """``count`` spans of zeroes, a stride apart."""

    target: Target
    bytes: Positive
    count: Positive = 1
    target_stride: Count = 0


class PlanFile(Format, frozen=True):
    """What a connector does for one request. ``permutes`` is reserved: anything in it is not covered yet."""

    format: Literal[1]
    case: str
    copies: tuple[CopyRun, ...] = ()
    zeroes: tuple[ZeroRun, ...] = ()
    permutes: Annotated[tuple[Any, ...], msgspec.Meta(max_length=1_000_000)] = ()


class Copy(msgspec.Struct, frozen=True):
    """One span copied. Source and target have equal length; every copy reads the memory as it was before."""

    source: Place
    target: Place


class Plan(msgspec.Struct, frozen=True):
    """Copies, then zeroes (spans of the consumer). Storages are named ``worker/storage``."""

    copies: tuple[Copy, ...]
    zeroes: tuple[Place, ...]
