# SPDX-License-Identifier: Apache-2.0
"""vLLM's own geometry tests: run, what they pin captured, and judged by the laws."""
