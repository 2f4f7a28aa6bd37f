"""A scripted language model for tests."""

from orchestrator.testing.model import *  # noqa: F403
from orchestrator.testing.model import __all__ as __all__
from orchestrator.testing.model import environment as environment
