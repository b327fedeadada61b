# SPDX-License-Identifier: Apache-2.0
"""A target's process that gave no answer which could be used."""

from __future__ import annotations

from typing import Literal

LostKind = Literal["crashed", "hung", "garbage"]
"""``crashed``: it ended. ``hung``: the deadline passed. ``garbage``: it broke the protocol, and was ended."""


class Lost(Exception):
    """Raised within, and handed to callers as an outcome. ``words``: what happened, with the last lines of its log."""

    def __init__(self, kind: LostKind, words: str) -> None:
        super().__init__(words)
        self.kind = kind
        self.words = words
