"""Build what the legs search: one tenant's catalogue, indexed."""
