"""Which bytes are kept already, so that nobody brings them twice."""

from collections.abc import Collection

from evidence.models.blobs import Blob


def kept_blobs(connection_id: str, blob_ids: Collection[str]) -> frozenset[str]:
    """Those of ``blob_ids`` that the connection has."""
    rows = Blob.unscoped.filter(connection_id=connection_id, blob_id__in=list(blob_ids))
    return frozenset(rows.values_list("blob_id", flat=True))
