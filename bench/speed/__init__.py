"""Measure the speed of a running server, and compare it with a baseline.

`make bench` loads a corpus into a separate installation, serves it, sends every kind of request with
one client and with eight, and checks the responses against the known contents of the corpus. A second
process, the baseline, serves the same rows with one plain SQL statement each.
"""
