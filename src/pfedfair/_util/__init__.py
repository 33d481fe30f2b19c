"""Errors, files, text, seeds, terminal: what every other tier uses."""
