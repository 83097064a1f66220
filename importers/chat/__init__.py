"""Chats of several services under one declaration."""
