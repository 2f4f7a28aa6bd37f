"""Agent frameworks: the few tools of theirs that fit a task, before the model reads them."""
