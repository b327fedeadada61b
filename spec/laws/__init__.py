# SPDX-License-Identifier: Apache-2.0
"""The kernels of the laws: quantifier-free, loop-free predicates over ints or solver terms, each written once.

One module a law. What a law ranges over (which cells, copies, pages) is the judge's, the model's and the proofs'
affair; what it says of one of them stands here.
"""
