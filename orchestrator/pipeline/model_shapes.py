"""The answers of a language model while a task is routed. Only a route with a model imports this file, and pydantic."""

from pydantic import BaseModel


class NeedsShape(BaseModel):
    """A model's answer to the prompt of `runtime.needs`."""

    needs: list[str]


class ChoiceShape(BaseModel):
    """A model's answer to the prompt of `pipeline.refiners.second_stage`."""

    needed: list[int]
    confidence: float
