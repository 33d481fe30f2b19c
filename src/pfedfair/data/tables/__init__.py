"""Tables: the reader, what columns are, encoders."""
