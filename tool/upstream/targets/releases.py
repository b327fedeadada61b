# SPDX-License-Identifier: Apache-2.0
"""The releases of vLLM that the probes were written for and are tested with."""

from __future__ import annotations

import re

from kvproof.failure import Failure

SUPPORTED = ("0.25.0", "0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0")
PINNED = ("0.32.0", "0.33.0")
"""What our own continuous integration runs."""
CURRENT = "0.33.0"

_NUMBER = r"(0|[1-9][0-9]*)"
_VERSION = re.compile(rf"{_NUMBER}(\.{_NUMBER}){{2,3}}((a|b|rc)[0-9]+)?(\.post[0-9]+)?(\.dev[0-9]+)?")


def checked_version(text: str) -> str:
    """The text, if it is a version in full: file names and expectations go by it. Raises Failure."""
    if _VERSION.fullmatch(text) is None or len(text) > 40:
        raise Failure(f"{text!r} is no version of vllm, such as {CURRENT}; supported are {', '.join(SUPPORTED)}")
    return text
