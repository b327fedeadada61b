# SPDX-License-Identifier: Apache-2.0
"""Generated cases: engines such as vLLM builds, a search over them, what it found made small."""
