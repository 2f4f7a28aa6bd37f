"""Planning: cutting a task into steps, binding each to a tool, and finding the arguments in its text."""
