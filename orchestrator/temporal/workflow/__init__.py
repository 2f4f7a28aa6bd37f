"""The deterministic side: the modules that workflow code imports."""
