# SPDX-License-Identifier: Apache-2.0
"""The oracle: a connector's arithmetic in plain Python, and the faulty rules beside it."""
