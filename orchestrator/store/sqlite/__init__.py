"""The store in a folder, as SQLite files."""
