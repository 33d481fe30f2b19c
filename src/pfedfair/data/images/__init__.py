"""Images: data sets of faces, and embeddings by a frozen encoder."""
