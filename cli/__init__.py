"""The `pdpp` command, a client of the REST API that needs neither Django nor PostgreSQL."""
