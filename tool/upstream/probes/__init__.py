# SPDX-License-Identifier: Apache-2.0
"""Scripts that run inside a target: in its process, with its Python and its libraries. Nothing imports them here."""
