# SPDX-License-Identifier: Apache-2.0
"""The proofs: lemmas, theorems and the engines that check them."""
