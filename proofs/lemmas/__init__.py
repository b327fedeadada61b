# SPDX-License-Identifier: Apache-2.0
"""Nonlinear facts and inductions: what the theorems are built from."""
