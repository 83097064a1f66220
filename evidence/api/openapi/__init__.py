"""The OpenAPI 3.1 document of ``/v1``.

Parameters come from the views, statuses from the error table, bounds from ``limits``: what the
routes take and what the document says they take is one list.
"""
