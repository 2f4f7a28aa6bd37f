"""A tenant's finished tasks: remembered unchanged, and read for every new task."""
