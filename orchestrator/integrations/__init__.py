"""Integrations with agent frameworks: they choose the framework's tools that fit, before the model reads them."""
