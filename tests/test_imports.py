import json
import subprocess
import sys

import pytest

ENGINES = {"numpy", "qdrant_client", "openai", "mcp", "rank_bm25", "jsonschema", "httpx2"}


@pytest.mark.parametrize(
    "module", ["orchestrator", "orchestrator.temporal.workflow", "orchestrator.workflows.execution"]
)
def test_the_deterministic_side_loads_no_engine(module: str) -> None:
    code = f"import sys, json, {module}; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout)
    assert not ENGINES & {name.partition(".")[0] for name in loaded}


def test_making_a_plugin_loads_no_engine() -> None:
    code = (
        "import sys, json; from orchestrator.temporal.plugin import OrchestratorPlugin;"
        "OrchestratorPlugin(catalogue='tools.jsonl', mcp_servers={'mcpServers': {}});"
        "print(json.dumps(sorted(sys.modules)))"
    )
    loaded = json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout)
    assert not {"qdrant_client", "openai", "mcp", "rank_bm25"} & {name.partition(".")[0] for name in loaded}
