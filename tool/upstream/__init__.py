# SPDX-License-Identifier: Apache-2.0
"""Real connectors on the test stand: fetched, run in a process of their own, observed, judged."""
