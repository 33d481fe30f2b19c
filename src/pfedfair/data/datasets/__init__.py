"""The bundled and the known data sets, one file each."""
