"""Inside the planner: where a task comes apart, and which arguments its text holds."""
