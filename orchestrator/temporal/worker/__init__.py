"""The worker side: the plugin, and what its activities share."""
