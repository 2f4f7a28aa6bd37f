"""Route a task: stages, fusion, refiners and selection."""
