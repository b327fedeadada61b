# SPDX-License-Identifier: Apache-2.0
"""The laws as a solver model of one case: the same kernels, on z3 terms.

Used both ways: to refute a plan (``refute``: is there a cell, a byte, a copy that breaks a law?) and to find one
(``find``: with the sources unknown, what do the laws leave?). For small worlds; the rest of ``kvproof.spec`` works
without it.
"""
