"""Apple Health's export."""
