"""`toolroute route`, `plan` and `run` with a language model, in separate processes, over HTTP."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from orchestrator.testing import Fault, ModelRequest, ScriptedModel, environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[1]
TASK = "refund charge ch_3PqX, then send a message about it to slack #support"
REFUND = {"id": "s1", "task": "refund", "tool": "stripe:refund_charge", "arguments": '{"charge": "ch_3PqX"}'}
NOTE = {"id": "s2", "task": "tell", "tool": "slack:post_message", "from_results": ["text"], "depends_on": ["s1"]}


def _said(asked: ModelRequest) -> Any:
    if asked.wants == "PlanShape":
        return {"steps": [REFUND, NOTE]}
    return {"action": "plan", "reasons": ["A refund, then a message."], "confidence": 0.93}


def toolroute(model: ScriptedModel, *arguments: str, **variables: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator", *arguments, "--catalogue", "examples/tools.jsonl"],
        env={**os.environ, **environment(model), **variables},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_route_asks_no_model_by_default() -> None:
    with ScriptedModel(_said) as model:
        code, _, _ = toolroute(model, "route", TASK)
    assert (code, model.asked) == (0, [])


def test_a_plan_is_the_models_and_says_so() -> None:
    with ScriptedModel(_said) as model:
        code, printed, err = toolroute(model, "plan", TASK, "-o", "json")
        assert code == 0, err
        plan = json.loads(printed)["plan"]
        assert (plan["model"], _column(plan["steps"], "late")) == ("scripted", [[], ["text"]])
        assert plan["usage"]["input"] > 0
        model.asked.clear()
        others = {"TOOLROUTE_MODEL": "a", "TOOLROUTE_MODEL_ROUTE": "b", "TOOLROUTE_MODEL_PLAN": "c"}
        _, shown, _ = toolroute(model, "plan", TASK, "--model", "mine", **others)
        assert "text from s1" in shown
        assert "model mine: plan" in shown
        toolroute(model, "plan", TASK, **others)
    assert [asked.model for asked in model.asked] == ["mine", "mine", "b", "c"]


def test_a_failing_endpoint_is_reported_with_the_deterministic_plan() -> None:
    with ScriptedModel(lambda _: Fault(401)) as model:
        code, printed, _ = toolroute(model, "plan", TASK, "-o", "json")
    plan = json.loads(printed)["plan"]
    assert (code, plan["model"]) == (0, "none")
    assert _column(plan["steps"], "tool")[0] == "stripe:refund_charge"
    assert "refused the key" in plan["warnings"][0]
    gone = " ".join(toolroute(model, "plan", TASK)[1].split())
    assert "no model: arguments are taken from the task's text only" in gone
    assert "! decided without a model" in gone
    assert "did not answer: the connection failed" in gone


def _column(steps: Sequence[dict[str, Any]], name: str) -> list[Any]:
    return [step[name] for step in steps]
