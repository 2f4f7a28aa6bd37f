"""Makes the contents of `data`. Nothing here is imported at run time."""
