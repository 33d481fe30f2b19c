"""Engines that run a method: `local` in one process; `site` and `flower` across machines."""
