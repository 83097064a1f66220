"""Signing in, as rows: who registered, which questions wait, which codes and refresh tokens live.

Nothing here knows a protocol; ``owner.oauth`` does.
"""
