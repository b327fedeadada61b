# SPDX-License-Identifier: Apache-2.0
"""Geometries as data: TOML case files, each with its expected outcome."""
