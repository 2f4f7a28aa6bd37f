"""The deterministic side: what workflow code imports."""
