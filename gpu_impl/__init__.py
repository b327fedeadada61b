# SPDX-License-Identifier: Apache-2.0
"""The implementation: descriptor tables in numpy, and the real transfer with torch and NIXL."""
