# SPDX-License-Identifier: Apache-2.0
"""Property tests draw the same examples in every run; the sweeps are for new ones."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("same-every-time", derandomize=True, deadline=None, database=None)
settings.load_profile("same-every-time")
