"""Who runs a method: `local`, clients in one process; `site` and `flower`, each at its place."""
