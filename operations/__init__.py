"""Keeping an installation well."""
