"""How well search finds what was judged: `make relevance`."""
