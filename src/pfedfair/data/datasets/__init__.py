"""The bundled data sets, and those that need a folder; one file each."""
