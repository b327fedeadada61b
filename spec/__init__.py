# SPDX-License-Identifier: Apache-2.0
"""The law: vocabulary, well-formedness, where cells live, the laws and the judge."""
