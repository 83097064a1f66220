"""Rows and constraints, by noun.

Importing the modules registers the models with Django. Nothing is re-exported: callers import
``evidence.models.grants`` and so on, which lets import contracts guard each table on its own.
"""

from evidence.models import (
    blobs as blobs,
    clients as clients,
    connections as connections,
    grants as grants,
    owners as owners,
    records as records,
    sources as sources,
)
