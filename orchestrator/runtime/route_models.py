"""The language model of a Router, opened on first use."""

from collections.abc import Callable
from typing import Any

from orchestrator.options import Options
from orchestrator.pipeline.model_calls import RouteModel
from orchestrator.runtime.inputs import check_models


class RouteModels:
    """The caller's language models, or those of the options.

    Attributes:
        of_route: Asks the models within a route.

    Raises:
        InvalidConfig: A stage of routing needs a model that the options do not name.
    """

    def __init__(self, given: Callable[[], Any] | None, options: Options) -> None:
        if given is None:
            check_models(options)
        self._given = given
        self._options = options
        self._models: Any = None
        self.of_route = RouteModel(self._open_models, options.route_timeout_s)

    async def aclose(self) -> None:
        """Close what was opened. The caller closes its own models."""
        if self._models is not None:
            await self._models.aclose()

    def _open_models(self) -> Any:
        if self._given is not None:
            return self._given()
        from orchestrator.llm.client import models_for

        self._models = self._models or models_for(self._options)
        return self._models
