# SPDX-License-Identifier: Apache-2.0
"""The judge: is a plan, a set of tables or a descriptor list lawful?

It goes by cells and ``locate``; how a connector would build its tables is not its business.
"""
