"""The stages of routing: one file each."""
