"""The pages around a sign-in: how to connect a program, and what those that are connected may read."""
