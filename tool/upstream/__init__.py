# SPDX-License-Identifier: Apache-2.0
"""Real connectors on the test stand: fetched, run in a process of their own, observed, judged.

``targets`` fetches what is put under test, ``running`` keeps its process, ``probes`` are the files that run inside of
it, ``protocol`` is what both say to each other. ``judging`` turns an answer into an outcome. Four commands are built on
these: ``matrix`` (cases by targets, bisect, compare), ``fuzzing``, ``own_tests`` (of vLLM) and ``live`` (end to end).
``record`` writes ``expected.toml``, what the releases are known to do.
"""
