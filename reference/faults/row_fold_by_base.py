# SPDX-License-Identifier: Apache-2.0
"""Row fold by base: replicated views register the row around them, then views of one base are one region."""

from kvproof.reference.faults.base_folding import base_folding, row_around, same_base

RULES = base_folding(row_around, same_base)
