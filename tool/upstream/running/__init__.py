# SPDX-License-Identifier: Apache-2.0
"""A process of a target, asked from here and ended from here, whatever it does."""
