# SPDX-License-Identifier: Apache-2.0
"""What a target answered on a case, judged, checked against memory, and explained by known faulty rules."""
