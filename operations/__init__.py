"""Operations: backup, diagnosis, keys, metrics, background jobs and the embedded PostgreSQL."""
