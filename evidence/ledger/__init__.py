"""What was disclosed to which client, verifiable afterwards."""
