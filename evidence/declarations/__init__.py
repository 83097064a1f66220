"""Source declarations: parsing, validation, storage layout and typed values, without Django."""
