# SPDX-License-Identifier: Apache-2.0
"""The commands, one a module. Each returns its exit status."""
