# SPDX-License-Identifier: Apache-2.0
"""Rules that once shipped, or were about to: each a small replacement for a function of the reference."""

from kvproof.reference.faults.registry import FAULTS, Fault

__all__ = ["FAULTS", "Fault"]
