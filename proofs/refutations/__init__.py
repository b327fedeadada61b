# SPDX-License-Identifier: Apache-2.0
"""Faulty rules and dropped conditions: each has a counterexample, found and replayed."""
