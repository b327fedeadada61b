# SPDX-License-Identifier: Apache-2.0
"""What is put under test, and how it gets here: releases, checkouts, the Python that they run in."""
