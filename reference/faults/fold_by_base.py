# SPDX-License-Identifier: Apache-2.0
"""Fold by base: views that start at one address are one region, of the first one's length.

A later replicated attention or sliding view overwrites length, stride and page count.
"""

from kvproof.reference.faults.base_folding import base_folding, own, same_base

RULES = base_folding(own, same_base)
