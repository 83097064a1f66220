"""Rows of OAuth clients, authorization requests, codes and refresh tokens.

The protocol is in ``owner.oauth``.
"""
