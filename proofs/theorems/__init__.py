# SPDX-License-Identifier: Apache-2.0
"""The laws hold for the reference's own functions, for all sizes."""
