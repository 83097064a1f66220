"""The owner that tests act for unless they name another."""

OWNER_ID = "owner"
