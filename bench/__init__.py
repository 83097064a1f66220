"""What is measured rather than tested; `make conformance` and `make agent-eval` run it."""
