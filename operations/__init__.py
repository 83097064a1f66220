"""Operations: backup, diagnosis, keys, background jobs and the embedded PostgreSQL."""
