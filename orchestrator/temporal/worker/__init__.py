"""The worker side: the plugin, and the resources that its activities share."""
