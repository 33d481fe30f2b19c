"""Who runs an algorithm: `stacked`, all clients at once; `plain`, the readable specification."""
