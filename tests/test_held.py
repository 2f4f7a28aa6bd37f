import json

import pytest

from orchestrator.records.call import ToolResult
from orchestrator.temporal.held import MAX_RESULT_BYTES, hold_bytes

EMOJI, PLAIN = "\U0001f600" * 60_000, "x" * 1_000_000


@pytest.mark.parametrize("text", [PLAIN, EMOJI, EMOJI + PLAIN, PLAIN + EMOJI, EMOJI[:10_000] + PLAIN])
@pytest.mark.parametrize("limit", [1_000, MAX_RESULT_BYTES])
def test_a_text_is_held_to_its_bytes_wherever_the_wide_letters_stand(text: str, limit: int) -> None:
    held = hold_bytes(ToolResult(text=text), limit)
    kept, _, mark = held.text.rpartition("\n")
    assert held.truncated
    assert limit / 5 < len(json.dumps(kept)) <= limit
    assert text.startswith(kept)
    assert mark == f"[cut: {len(text) - len(kept):,} of {len(text):,} characters left out]"


@pytest.mark.parametrize("text", ["", "fine", "x" * 998])
def test_a_text_that_fits_stays(text: str) -> None:
    assert hold_bytes(ToolResult(text=text), 1_000) == ToolResult(text=text)
