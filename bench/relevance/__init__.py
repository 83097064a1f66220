"""Measure search relevance against judged queries: `make relevance`."""
