"""The client side: runs, schedules and a development server."""
