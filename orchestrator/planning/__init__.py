"""Inside the planner: where a task comes apart, which tool each part gets, and which arguments its text holds."""
