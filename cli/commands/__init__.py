"""The commands of `pdpp`, grouped by what they read."""
