"""Internals of the planner: the parts of a task, the tool of each part, and the arguments in its text."""
