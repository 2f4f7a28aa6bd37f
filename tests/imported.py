"""What a program has loaded."""

import json
import subprocess
import sys


def loaded(code: str) -> set[str]:
    """Return the top names of what is loaded after a program's lines."""
    code = f"import sys, json; {code}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    return {name.partition(".")[0] for name in json.loads(done.stdout)}
