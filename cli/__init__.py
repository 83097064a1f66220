"""The `pdpp` command: a client of the REST evidence API over HTTP, and nothing more.

It knows no Django and no table; what it may read is what its token may read.
"""
