"""Secrets kept out: of errors all that an entry brought in, of results and listings what is or looks like a secret."""

import json
import logging
from typing import Any

import pytest

from orchestrator.mcp.config import McpConfig
from orchestrator.records.redact import LogFilter, Secrets


def secrets_of(entry: dict[str, Any], **environment: str) -> Secrets:
    """What is masked of a server with this entry, launched in this environment."""
    return McpConfig.parse({"mcpServers": {"it": entry}}).servers["it"].launch(environment).secrets


def test_errors_hide_what_the_entry_brought_in_and_results_only_what_is_secret() -> None:
    entry = {
        "command": "x",
        "args": ["${OPAQUE}"],
        "env": {"NOTES": "/home/me/notes", "API_KEY": "s3cret-1", "LOG_LEVEL": "error", "ZONE": "Europe/Berlin"},
    }
    entry["env"] |= {"TEAM": "web-7", "WORDS": "opensesameplease"}
    secrets = secrets_of(entry, OPAQUE="q7mm2xw9z1")
    said = "error in /home/me/notes with s3cret-1 q7mm2xw9z1 in Europe/Berlin: web-7 opensesameplease"
    assert secrets.scrub(said) == "error in *** with *** *** in ***: *** ***"
    assert secrets.scrub_result(said) == said.replace("s3cret-1 q7mm2xw9z1", "*** ***")


def test_of_what_plain_names_hold_results_hide_only_random_texts_from_the_environment() -> None:
    env = {
        "REGION": "${R}",
        "CLUSTER": "${C}",
        "FOLDER": "${F}",
        "SHORT": "${S}",
        "ID": "${I}",
        "OWN": "q7mm2xw9z2",
    }
    given = {"R": "q7mm2xw9z1", "C": "production-cluster", "F": "/srv/q7mm2xw9z3", "S": "b7mx2", "I": "4097123456"}
    secrets = secrets_of({"command": "x", "env": env}, **given)
    plain = "production-cluster /srv/q7mm2xw9z3 b7mx2 4097123456 q7mm2xw9z2"
    assert secrets.scrub_result(f"{plain} q7mm2xw9z1") == f"{plain} ***"


def test_switches_settings_and_media_types_are_no_secrets_whatever_names_them() -> None:
    env = {"AUTH_ENABLED": "true", "MAX_TOKENS": "4096", "AUTH_TYPE": "oauth", "SESSION_PASSWORD": "hunter"}
    args = ["--max-tokens", "8192", "--token-limit=512000", "--auth-token", "abcdefg"]
    stdio = secrets_of({"command": "x", "args": args, "env": env})
    assert stdio.scrub_result("true 4096 oauth hunter 8192 512000 abcdefg") == "true 4096 oauth *** 8192 512000 ***"
    headers = {"Accept": "application/json", "X-Readonly": "True", "X-Api-Key": "k3y-01"}
    http = secrets_of({"url": "http://a", "headers": headers})
    assert http.scrub_result("application/json true True k3y-01") == "application/json true True ***"


def test_numbers_of_a_listing_stay_numbers_where_a_secret_has_the_same_digits() -> None:
    secrets = secrets_of({"command": "x", "env": {"PIN_KEY": "4711"}})
    listed = {"maximum": 4711, "description": "at most 4711", "enum": ["4711", True], "4711": None}
    assert secrets.scrub_json(listed) == {
        "maximum": 4711,
        "description": "at most ***",
        "enum": ["***", True],
        "***": None,
    }


def test_headers_and_urls_are_hidden_in_every_form() -> None:
    entry = {"url": "https://me:pa55word@h/mcp?key=abcd1234", "headers": {"Authorization": "Bearer to/k+en"}}
    secrets = secrets_of(entry)
    for text in ("to/k+en", "to%2Fk%2Ben", "pa55word", "abcd1234"):
        assert secrets.scrub_result(f"see {text} here") == "see *** here"
    assert secrets.scrub("Bearer of news") == "Bearer of news"
    key = 'a"b\\c-01'
    secrets = secrets_of({"command": "x", "env": {"API_KEY": key}})
    assert secrets.scrub_result(json.dumps({"key": key})) == '{"key": "***"}'


def test_secrets_among_the_arguments_are_hidden_and_the_rest_stays() -> None:
    args = [
        *("-y", "mcp-remote", "https://me:pa55word@h/mcp?key=abcd1234", "--header", "Authorization: Bearer to/k+en"),
        *("--api-key", "k3y-0001", "--token=t0ken-02", "postgres://me:dbpa55@h/notes", "--folder", "/home/me/notes"),
    ]
    secrets = secrets_of({"command": "npx", "args": args})
    shown = secrets.scrub(" ".join(args))
    for planted in ("pa55word", "abcd1234", "to/k+en", "k3y-0001", "t0ken-02", "dbpa55"):
        assert planted not in shown
    for plain in ("mcp-remote", "--api-key", "/home/me/notes", "postgres://me:***@h/notes"):
        assert plain in shown


def test_secrets_inside_an_argument_are_hidden() -> None:
    args = [
        *("--dsn=postgres://me:pa55word@h/x", "-e", "DATABASE_URL=postgres://me:dbpa55@h/notes"),
        *("--hosts=redis://:r3dis-01@a,redis://:r3dis-02@b", "--header=Authorization: Bearer to/k+en"),
        *("--url", "jdbc:postgresql://h/x?user=me&password=jdbcword", "--path=C:\\notes"),
    ]
    shown = secrets_of({"command": "npx", "args": args}).scrub_result(" ".join(args))
    for planted in ("pa55word", "dbpa55", "r3dis-01", "r3dis-02", "to/k+en", "jdbcword"):
        assert planted not in shown
    for plain in ("--dsn=postgres://me:***@h/x", "DATABASE_URL=", "@a,", "?user=me&", "C:\\notes"):
        assert plain in shown


@pytest.mark.parametrize("value", ["${THERE}", "URL"], ids=["expanded", "written out"])
@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (
            "postgres://admin:s3cretPw@db.example/prod?sslmode=require",
            "postgres://admin:***@db.example/prod?sslmode=require",
        ),
        ("mongodb://u:hunter@a,b/it?authSource=admin", "mongodb://u:***@a,b/it?authSource=admin"),
        ("https://hooks.example/services/T01AB2/aB3dE5gH7jK9mN1pQ3sT", "https://hooks.example/services/T01AB2/***"),
        ("https://oops:s3cretPw@[h/x", "https://oops:***@[h/x"),
    ],
)
def test_secrets_of_a_variables_url_are_hidden_and_its_plain_parts_stay(value: str, url: str, shown: str) -> None:
    env = {"BACKEND": value.replace("URL", url)}
    assert secrets_of({"command": "x", "env": env}, THERE=url).scrub_result(f"at {url} now") == f"at {shown} now"


@pytest.mark.parametrize(
    ("url", "secret"),
    [
        ("https://t0ken-as-user@h/mcp", "t0ken-as-user"),
        ("https://h/mcp/sk-ak-D8FjKQ0lSt1JqZ/stream", "sk-ak-D8FjKQ0lSt1JqZ"),
        ("https://me:p%40ss%2F1@h/mcp", "p@ss/1"),
    ],
)
def test_secrets_elsewhere_in_a_url_are_hidden(url: str, secret: str) -> None:
    secrets = secrets_of({"url": url})
    assert secrets.scrub_result(f"see {secret} here") == "see *** here"


def test_a_readable_path_of_a_url_stays() -> None:
    said = "no answer at https://h/organizations/our-own-department/mcp/v2"
    assert secrets_of({"url": said.split()[-1]}).scrub_result(said) == said


def test_each_line_of_a_long_key_is_hidden() -> None:
    key = "-----BEGIN KEY-----\nMIIabc123\nxyz789\n"
    secrets = secrets_of({"command": "x", "env": {"PRIVATE_KEY": "${K}"}}, K=key)
    assert secrets.scrub("it read MIIabc123 | xyz789") == "it read *** | ***"


def test_a_request_that_ends_while_another_is_logged_leaves_that_ones_secrets_masked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Ending(LogFilter):
        def filter(self, record: logging.LogRecord) -> bool:
            self.__exit__()
            return True

    with Ending(Secrets()), LogFilter(Secrets(strong=["pass4711"])):
        logging.getLogger("httpx2").warning("POST http://me:pass4711@host")
    assert caplog.messages == ["POST http://me:***@host"]
    assert not logging.getLogger("httpx2").filters
