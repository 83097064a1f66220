"""OAuth 2.0 authorization server: the protocol of django-oauth-toolkit over this project's own tables.

The library's tables are not used: every secret is stored as a keyed hash, and access tokens are the
tokens of ``evidence.access.tokens``.
"""
