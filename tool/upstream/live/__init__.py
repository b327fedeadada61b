# SPDX-License-Identifier: Apache-2.0
"""Two whole engines on this machine: one computes prompts, the other one pulls their caches."""
