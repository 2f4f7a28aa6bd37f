"""How people write a task: its parts, what it forbids and quotes, its slips and shorthand. Reads text, nothing else."""
