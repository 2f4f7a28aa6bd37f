"""Secrets kept out: the values that an entry gives, but for plain words, numbers and places."""

import json
import logging
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from orchestrator import McpConfig
from orchestrator.common.redact import LogFilter, Secrets


def secrets_of(entry: dict[str, Any], **environment: str) -> Any:
    """Return the masked secrets of a server with this entry, launched in this environment."""
    return McpConfig.parse({"mcpServers": {"it": entry}}).servers["it"].launch(environment).secrets


@pytest.mark.parametrize(
    ("env", "said", "shown"),
    [
        ({"API_KEY": "abcd1234"}, "<abcd1234>", "<***>"),
        ({"ANYTHING": "q7mm2xw9z1"}, "q7mm2xw9z1", "***"),
        ({"PGPASSWORD": "hunter"}, "hunter and hunters", "*** and hunters"),
        ({"DB_PASSWORD": "correct horse"}, "a correct horse", "a ***"),
        ({"AUTH": "Bearer to/k+en"}, "see to%2Fk%2Ben or to/k+en", "see *** or ***"),
        ({"AUTH": "Basic bWU6cGE1NXdvcmQ="}, "me with pa55word", "me with ***"),
        ({"DSN": "postgres://me:pa55@h/db"}, "pa55 refused", "*** refused"),
        ({"KEY": "-----BEGIN-----\\nMIIabc\\nxyz789"}, "it read MIIabc | xyz789", "it read *** | ***"),
        ({"IT": "${THERE}"}, "it was from-outside-1", "it was ***"),
        ({"LOG_LEVEL": "debug", "PORT": "3000", "MAX_TOKENS": "4096"}, "debug 3000 4096", "debug 3000 4096"),
        ({"AUTH_ENABLED": "true", "SHORT_KEY": "abc"}, "true abc", "true abc"),
    ],
)
def test_values_of_variables_are_hidden_but_plain_words_and_numbers(env: dict[str, str], said: str, shown: str) -> None:
    secrets = secrets_of({"command": "x", "env": env}, THERE="from-outside-1")
    assert secrets.redact(said) == shown


def test_a_variable_that_every_server_gets_is_readable_but_for_an_address() -> None:
    env = {"TZ": "Europe/Berlin", "LC_ALL": "de_DE.UTF-8", "HTTPS_PROXY": "http://me:pa55word@proxy:3128"}
    secrets = secrets_of({"command": "x", "env": env})
    assert secrets.redact("Europe/Berlin de_DE.UTF-8 pa55word") == "Europe/Berlin de_DE.UTF-8 ***"
    from_outside = secrets_of({"command": "x", "env": {"TZ": "${TZ}"}}, TZ="Asia/Tokyo")
    assert from_outside.redact("Use 'Asia/Tokyo' as local timezone") == "Use 'Asia/Tokyo' as local timezone"


def test_an_existing_place_stays_readable_and_what_only_looks_like_one_does_not(tmp_path: Path) -> None:
    notes = str(tmp_path / "notes.json")
    secrets = secrets_of({"command": "x", "env": {"NOTES": notes, "LICENCE": "/9j4+aa=="}})
    assert secrets.redact(f"{notes} /9j4+aa==") == f"{notes} ***"


@pytest.mark.parametrize(
    ("entry", "said", "shown"),
    [
        ({"url": "https://h", "headers": {"Authorization": "Bearer hunter2"}}, "hunter2", "***"),
        ({"url": "https://me:pa55word@h/mcp"}, "me pa55word", "me ***"),
        ({"url": "https://me:pa%2055@h/mcp"}, "Basic bWU6cGEgNTU= of pa 55", "Basic *** of ***"),
        ({"url": "https://t0ken@h/mcp"}, "t0ken", "***"),
        ({"url": "https://h/mcp?key=abcd1234&v=2"}, "abcd1234 2", "*** 2"),
        ({"url": "https://h/s/aB3dE5gH7jK9mN1pQ3sT/mcp"}, "aB3dE5gH7jK9mN1pQ3sT mcp", "*** mcp"),
        ({"command": "x", "args": ["--api-key", "opensesame", "--max", "50"]}, "opensesame 50", "*** 50"),
        ({"command": "x", "args": ["--token=t0ken-02", "--folder", "notes"]}, "t0ken-02 notes", "*** notes"),
        ({"command": "x", "args": ["-e", "API_KEY=k3y-0001"]}, "k3y-0001", "***"),
        ({"command": "x", "args": ["--header", "Authorization: Bearer to/k+en"]}, "to/k+en", "***"),
        ({"command": "x", "args": ["postgres://me:dbpa55@h/notes"]}, "dbpa55 notes", "*** notes"),
        ({"command": "x", "args": ["--max-tokens", "8192", "--to", "${K:-}"]}, "8192", "8192"),
        ({"command": "x", "args": ["${OPAQUE}"]}, "it was opaque-1", "it was ***"),
    ],
)
def test_secrets_of_headers_addresses_and_arguments_are_hidden(entry: dict[str, Any], said: str, shown: str) -> None:
    assert secrets_of(entry, OPAQUE="opaque-1").redact(said) == shown


def test_a_plain_word_is_hidden_only_where_it_is_one() -> None:
    secrets = secrets_of({"command": "x", "env": {"PASSWORD": "post"}})
    assert secrets.redact("postgres: post post_1 %3Apost%40 composted") == "postgres: *** ***_1 %3A***%40 composted"
    assert secrets.redact(json.dumps("it is\npost\nnow")) == '"it is\\n***\\nnow"'


def test_json_is_redacted_in_every_text_and_its_numbers_stay() -> None:
    secrets = Secrets(["4711", 'a"b\\c-01'])
    listed = {"maximum": 4711, "description": "at most 4711", "enum": ["4711", True], "4711": None}
    hidden = {"maximum": 4711, "description": "at most ***", "enum": ["***", True], "***": None}
    assert secrets.redact_json(listed) == hidden
    assert secrets.redact(json.dumps({"key": 'a"b\\c-01'})) == '{"key": "***"}'


def test_no_secret_stands_in_a_repr_or_an_error() -> None:
    spec = McpConfig.parse(
        {"mcpServers": {"it": {"command": "x", "args": ["--token", "s3cret-9"], "env": {"API_KEY": "s3cret-1"}}}}
    ).servers["it"]
    launch = spec.launch({})
    assert "s3cret" not in f"{spec!r} {launch!r} {launch.secrets!r}"


def test_a_request_that_ends_while_another_is_logged_leaves_that_ones_secrets_masked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Ending(LogFilter):
        def filter(self, record: logging.LogRecord) -> bool:
            self.__exit__()
            return True

    with Ending(Secrets()), LogFilter(Secrets(["pass4711"])):
        logging.getLogger("httpx2").warning("POST http://me:pass4711@host")
    assert caplog.messages == ["POST http://me:***@host"]
    assert not logging.getLogger("httpx2").filters


@pytest.mark.parametrize("levels", list(product([True, False], repeat=4)))
def test_a_secret_is_masked_in_json_that_is_a_text_of_json(levels: tuple[bool, ...]) -> None:
    secret = 'Zq8!"v2\u00e9/Kd9'
    written = secret
    for ascii_only in levels:
        written = json.dumps(written, ensure_ascii=ascii_only)
    masked = Secrets([secret]).redact(written)
    assert "Zq8!" not in masked
    assert json.loads(json.loads(json.loads(json.loads(masked)))) == "***"


@pytest.mark.parametrize(
    "written",
    [
        quote("sk/9Q+zX é~(1*)"),
        "sk%2f9Q%2bzX%20%c3%a9~%281%2a%29",  # Lower-case digits.
        quote_plus("sk/9Q+zX é~(1*)"),
        "sk%2F9Q%2BzX+%C3%A9%7E%281*%29",  # An HTML form, URLSearchParams.
        "sk%2F9Q%2BzX%20%C3%A9~(1*)",  # JavaScript's encodeURIComponent.
        "sk/9Q+zX%20%C3%A9~(1*)",  # JavaScript's encodeURI.
    ],
)
def test_a_secret_is_masked_in_a_url(written: str) -> None:
    assert Secrets(["sk/9Q+zX é~(1*)"]).redact(f"https://a.example/{written}?") == "https://a.example/***?"


def test_a_secret_that_is_not_utf8_is_masked() -> None:
    assert Secrets(["caf\udce9-9Q8zX81"]).redact("<caf\udce9-9Q8zX81>") == "<***>"


def test_a_secret_is_masked_in_hexadecimal() -> None:
    secret = "Zq8v2Kd9wPx7"
    written = secret.encode().hex()
    assert Secrets([secret]).redact(f"<{written}> <{written.upper()}>") == "<***> <***>"


def test_a_secret_is_masked_as_a_number_and_in_base64() -> None:
    secrets = secrets_of({"command": "x", "env": {"PIN_TOKEN": "4711471147", "KEY": "sk-abc123XYZ-456"}})
    assert secrets.redact_json({"pin": 4711471147, "count": 47}) == {"pin": "***", "count": 47}
    assert secrets.redact("Authorization: c2stYWJjMTIzWFlaLTQ1Ng==") == "Authorization: ***=="


def test_a_name_may_contain_a_value_that_is_no_key() -> None:
    values = {"TOKEN": "notes_db", "SECRET": "eu-west-1", "KEY": "sk-abc123XYZ-456"}
    secrets = secrets_of({"command": "x", "env": values})
    assert not secrets.are_in("query_notes_db in eu-west-1")
    assert secrets.are_in("query_sk-abc123XYZ-456")
