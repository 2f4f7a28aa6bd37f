"""What of an entry is secret, and what is not: values as people have them, masked as in a tool's answer."""

import json

import pytest

from tests.test_scrub import secrets_of

READABLE = {
    "LOG_LEVEL": "debug",
    "PORT": "3000",
    "TZ": "Europe/Berlin",
    "NODE_ENV": "production",
    "NOTES": "/home/me/notes",
    "AWS_REGION": "eu-central-1",
    "PROJECT_ID": "my-project-123456",
    "SLACK_TEAM_ID": "T01AB2CD3EF",
    "DB_HOST": "db-1a2b3c4d5e.eu.example.com",
    "PGUSER": "app_user",
    "MODEL": "gpt-4o-mini-2024-07-18",
    "VIEWPORT": "1280x720",
    "SINCE": "2024-01-01T00:00:00Z",
    "GIT_AUTHOR_NAME": "Jane Doe",
    "KEYWORDS": "alpha beta",
    "SORT_KEY": "created_at",
    "OUTPUT_TOKENS": "4096",
    "AUTH_PROVIDER": "github",
    "AUTH_URL": "https://login.example.com/oauth/token",
    "AUTH_USER": "jane99xx",
    "AUTH0_DOMAIN": "dev-x1y2z3a4.us.example.com",
    "SSH_KEY_PATH": "/home/me/.ssh/id_rsa",
    "GOOGLE_APPLICATION_CREDENTIALS": "~/key.json",
    "API": "https://h/api?limit=5000&fields=get_items&since=2024-01-01",
}
SECRET = {
    "API_KEY": "abcd1234",
    "OPENAI_KEY": "opensesame",
    "PGPASSWORD": "hunter",
    "DB_PASSWORD": "correct horse",
    "GITHUB_TOKEN_ORG": "ghp_abc",
    "GITHUB_PAT": "ghp_abc",
    "BOT_TOKEN": "123456:ABC-DEF",
    "SESSION_ID": "47114711",
    "AWS_ACCESS_KEY_ID": "AKIAABCDEFGH",
    "LICENSE_KEY": "/9j4+aa==",
    "AUTHORIZATION": "whatever",
}


@pytest.mark.parametrize("expanded", [True, False])
@pytest.mark.parametrize("name", READABLE)
def test_ordinary_values_stay_readable_wherever_they_come_from(name: str, expanded: bool) -> None:
    value = READABLE[name]
    secrets = secrets_of({"command": "x", "env": {name: f"${{{name}}}" if expanded else value}}, **{name: value})
    said = f"{value}: get_items, 5000 since 2024-01-01"
    assert secrets.scrub_result(said) == said


@pytest.mark.parametrize("name", SECRET)
def test_values_under_a_secrets_name_are_hidden(name: str) -> None:
    assert secrets_of({"command": "x", "env": {name: SECRET[name]}}).scrub_result(f"<{SECRET[name]}>") == "<***>"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Server=db;User Id=sa;Password=abc!d1;Encrypt=true;", "abc!d1"),
        ("jdbc:sqlserver://h:1433;user=sa;password=abc1;x=y", "abc1"),
        ("host=h user=me password=hunter dbname=x", "hunter"),
        ("AccountName=a;AccountKey=ab+/cd1==;EndpointSuffix=example.net", "ab+/cd1=="),
        ('{"Authorization": "Bearer ntn_abc", "Version": "2022-06-28"}', "ntn_abc"),
        ('{"api_key":"zzzz","limit":5000,"token":null}', "zzzz"),
        ('{"password": "correct horse"}', "correct horse"),
        ("{'url': 'https://h/?key=abcd1234', 'n': 1}", "abcd1234"),
        ("{'url': 'https://me:s3cretPw@h/x'}", "s3cretPw"),
        ("[https://h/?sig=Zz9yXx8wVv7u]", "Zz9yXx8wVv7u"),
        ("(https://h/?sig=Zz9yXx8wVv7u),x", "Zz9yXx8wVv7u"),
        ("https://h/?sig=Zz9yXx8wVv7u;`x`", "Zz9yXx8wVv7u"),
        ("https://p/?next=https://h/x&sig=Zz9yXx8wVv7u", "Zz9yXx8wVv7u"),
        ("https://p/#access_token=abcde", "abcde"),
        ("https://p/?x=1&key=opensesame", "opensesame"),
        ("postgres://me:pa/ss1@h/db", "pa/ss1"),
        ('postgres://me:pa"ss1@h/db', 'pa"ss1'),
        ("postgres://me:pass#word1@h/db", "pass"),
    ],
)
def test_secrets_within_a_value_are_hidden_also_alone(text: str, secret: str) -> None:
    for entry in ({"command": "x", "env": {"IT": text}}, {"command": "x", "args": [text]}):
        secrets = secrets_of(entry)
        assert secrets.scrub_result(f"it was {secret} now") == "it was *** now"
        assert secret not in secrets.scrub_result(text)


@pytest.mark.parametrize(
    "args",
    [
        ["--prompt", "Key: always answer in French."],
        ["--prompt", "Token: required; password: see below. Give key=value pairs, auth: basic."],
        ["--prompt", "Where --password is required, --token always value, --key below. A --key-file /etc/below."],
        ["--auth", "basic", "--key", "value", "--token-limit=8192", "--keywords", "always"],
        ["--origins=https://example.com;https://b.example/8192", "https://registry.example/@basic/value"],
        ['{"site":"https://example.com","contact":"admin@example.com"}', "http://example.com:8192/@basic/value"],
    ],
)
def test_ordinary_arguments_stay_readable(args: list[str]) -> None:
    said = "always required below value pairs basic French 8192 example.com registry.example"
    assert secrets_of({"command": "x", "args": args}).scrub_result(said) == said


@pytest.mark.parametrize(
    ("args", "secret"),
    [
        (["--api-key=k3y-1"], "k3y-1"),
        (["--api-key", "opensesame"], "opensesame"),
        (["--header", "X-Api-Key: k3y-0001"], "k3y-0001"),
        (["--header=Authorization:Bearer abc1234"], "abc1234"),
        (["--header", "Authorization: Bearer opensesame"], "opensesame"),
        (["--header=X-Api-Key: opensesame"], "opensesame"),
        (["-c", "curl -H 'Authorization: Bearer zz11zz' x"], "zz11zz"),
        (["--to=${API_KEY:-d3fault}"], "d3fault"),
        (["-c", "npx server --token zz11zz --limit 5"], "zz11zz"),
        (["-c", "npx server --api-key 'zz11 zz' && echo"], "zz11 zz"),
        (["--cookie", "sid=9f8e7d6c5b4a; theme=dark"], "9f8e7d6c5b4a"),
    ],
)
def test_secrets_among_arguments_are_hidden_also_alone(args: list[str], secret: str) -> None:
    assert secrets_of({"command": "x", "args": args}).scrub_result(f"it was {secret} now") == "it was *** now"


@pytest.mark.parametrize(
    ("name", "value", "said", "shown"),
    [
        ("Authorization", "Bearer hunter", "Bearer hunter", "***"),
        ("Authorization", "Bearer hunter", "a Bearer of hunter", "a Bearer of ***"),
        ("Cookie", "sid=9f8e7d6c5b4a; theme=dark", "9f8e7d6c5b4a in the dark", "*** in the dark"),
        ("X-Consumer", "hunter2", "hunter2", "***"),
        ("X-Note", "always the main repo", "always main", "always main"),
        ("X-MCP-Toolsets", "repos,issues", "repos,issues", "repos,issues"),
        ("Notion-Version", "2022-06-28", "on 2022-06-28", "on 2022-06-28"),
    ],
)
def test_of_headers_results_hide_what_is_or_looks_secret_and_errors_all_but_words(
    name: str, value: str, said: str, shown: str
) -> None:
    secrets = secrets_of({"url": "https://h", "headers": {name: value}})
    assert secrets.scrub_result(said) == shown
    assert secrets.scrub(value) == "***"


def test_a_password_that_is_a_plain_word_garbles_no_longer_word_and_no_name_of_its_user() -> None:
    own = "postgresql://postgres:postgres@localhost/postgres"
    assert secrets_of({"command": "x", "env": {"URL": own}}).scrub_result(f"postgres at {own}") == (
        "postgres at postgresql://postgres***localhost/postgres"
    )
    secrets = secrets_of({"command": "x", "env": {"PGPASSWORD": "post"}})
    assert (
        secrets.scrub_result("postgres: post post_1 %3Apost%40 composted") == "postgres: *** ***_1 %3A***%40 composted"
    )
    assert secrets.scrub_result(json.dumps("it is\npost\nnow")) == '"it is\\n***\\nnow"'


def test_a_key_that_stands_on_one_line_is_hidden_line_by_line_too() -> None:
    key = r"-----BEGIN KEY-----\nMIIabc123\nxyz789\n-----END KEY-----"
    secrets = secrets_of({"command": "x", "env": {"KEYS": json.dumps({"private_key": key.replace("\\n", "\n")})}})
    assert secrets.scrub_result("MIIabc123 and xyz789") == "*** and ***"


@pytest.mark.parametrize(
    ("url", "hidden"),
    [
        ("https://h/mcp?project_ref=abcdefghijklmnopqrst&limit=5000", ""),
        ("https://h/mcp?key=abcd1234&tools=get_contents", "abcd1234"),
        ("https://h/mcp?x=abcdefghijklmnopqrst", "abcdefghijklmnopqrst"),
        ("https://h/mcp/s/aB3dE5gH7jK9mN1pQ3sT/mcp", "aB3dE5gH7jK9mN1pQ3sT"),
    ],
)
def test_of_a_servers_url_only_what_is_or_looks_secret_is_hidden(url: str, hidden: str) -> None:
    shown = url.replace(hidden, "***") if hidden else url
    assert secrets_of({"url": url}).scrub(f"no answer at {url}") == f"no answer at {shown}"
