# SPDX-License-Identifier: Apache-2.0
"""Targets × cases: put to the targets, held against what is known, compared, told."""
