"""Presets: pipelines by name, each one value in one file."""
