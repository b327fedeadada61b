# SPDX-License-Identifier: Apache-2.0
"""Row fold by base and length: replicated views register the row around them, then equal base and length fold.

Nothing is truncated any more, but a view at a row's base is registered beside the row that holds it.
"""

from kvproof.reference.faults.base_folding import base_folding, row_around, same_base_and_length

RULES = base_folding(row_around, same_base_and_length)
