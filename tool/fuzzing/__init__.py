# SPDX-License-Identifier: Apache-2.0
"""Random geometries, and the comparison of all routes on them."""
