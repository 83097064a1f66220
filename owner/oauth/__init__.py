"""The authorization server: django-oauth-toolkit's protocol over our own rows.

The library reads and judges the requests; ``validator.py`` is where it meets what we store. Its
tables are not used: every secret is kept as a keyed hash, and access tokens are the very ones that
``evidence.access.tokens`` looks up.
"""
