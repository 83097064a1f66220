"""The OpenAPI 3.1 document of `/v1`, built from the views, the error table and the limits."""
