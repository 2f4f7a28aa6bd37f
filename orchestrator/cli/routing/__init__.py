"""Commands that find tools for a task: `route`, `explain`, `plan`, `eval`."""
