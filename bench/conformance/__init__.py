"""The official conformance suite against this server, through a proxy that adds the bearer."""
