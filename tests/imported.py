"""The modules that a program has loaded."""

import json
import subprocess
import sys


def loaded(code: str, *, whole: bool = False) -> set[str]:
    """Return the names of the modules that are loaded after a program's lines: top names, or whole names."""
    code = f"import sys, json; {code}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    names = set(json.loads(done.stdout.splitlines()[-1]))
    return names if whole else {name.partition(".")[0] for name in names}
