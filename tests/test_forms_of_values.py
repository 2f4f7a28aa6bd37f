"""Values that are known by their form, and identifiers without quotes."""

from typing import Any

import pytest

from orchestrator.planning.arguments import extract
from tests.decisions import TEXT, schema

ID = {"type": "string", "description": "Its id"}


def taken(said: str, /, **parameters: Any) -> dict[str, Any]:
    """What required parameters get."""
    return extract(schema(*parameters, **parameters), said).values


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("tell them in #legal that we are late", "channel", "#legal"),
        ("follow @nasa", "username_to_follow", None),
        ("follow @nasa", "username", "nasa"),
        ("merge 482 in repo acme/web", "repo", "acme/web"),
        ("cut a release of v2.3.0-rc.1 today", "tag", "v2.3.0-rc.1"),
        ("ship search 4.2.0 to production", "version", "4.2.0"),
        ("text +44 7700 900123: running late", "phone_number", "+44 7700 900123"),
        ("post this in #general: we ship today", "text", "we ship today"),
        ("reply to ticket 4471: we ship tomorrow", "body", "we ship tomorrow"),
        ("restart checkout-api in prod", "deployment", "checkout-api"),
        ("refund the charge ch_3PqX12 in full", "charge", "ch_3PqX12"),
        ("mail bo@acme.io the minutes", "to", "bo@acme.io"),
        ('send the minutes to bo@acme.io "today"', "to", "bo@acme.io"),
        ("mail Bo about cy@acme.io", "to", None),
        ('mail it to "Bo Berg"', "to", "Bo Berg"),
        ('mail Bo "See you. Cheers, Tom"', "to", None),
        ('send "done" by mail', "to", None),
        ("forward what bo@acme.io wrote", "to", None),
        ("mail bo@acme.io and cy@acme.io the minutes", "to", None),
        ("mail bo@acme.io, cc cy@acme.io", "to", None),
        ("what is near postcode CF103NP", "postcode", "CF103NP"),
        ("the status of the build on branch main", "branch", "main"),
        ("post it to channel general, please", "channel", "general"),
        ("the deploy history of service level agreements", "service", None),
        ("deploy the service called api to production", "service", "api"),
        ("create a channel named launch", "name", "launch"),
        ("create a channel called launch-2026 and invite Bo", "channel_name", "launch-2026"),
        ("create a channel named after its owner", "name", None),
        ("create a channel named launch", "topic", None),
        ("reviews of the interviewer named Charlie Ji", "name", "Charlie Ji"),
        ("give to the charity called Save the Ocean Foundation", "charity", "Save the Ocean Foundation"),
        ("play the file named take9 and the song titled 'Serenity'", "title", "Serenity"),
        ("release version 2.3", "version", "2.3"),
        ("release version 2.3", "title", None),
        ("create an issue titled 'on branch main'", "title", "on branch main"),
        ("list pods not in namespace prod", "namespace", None),
        ("release v2.3", "tag", "v2.3"),
        ("how many SKU-1001 are left", "sku", "SKU-1001"),
        ("how many SKU-1001 are left", "warehouse", None),
        ("refund the charge of cus_3PqX12 in full", "charge", None),
        ("refund the charge ch_3PqX12 in full", "reason", None),
    ],
)
def test_a_value_is_known_by_its_form(text: str, name: str, value: str | None) -> None:
    assert taken(text, **{name: TEXT}).get(name) == value


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("post in #legal and #ops", "channel"),
        ("fix issue #88", "channel"),
        ("write to bo@nasa.gov", "username"),
        ("set up CI/CD for it", "repo"),
        ("read and/or write", "repo"),
        ("work on a location-based app", "place"),
        ("follow up on the read-only users", "service"),
        ("say good-bye", "message"),
        ("deploy the service which needs python 3.11.4", "version"),
        ("create an issue about a bug in login/logout", "repo"),
    ],
)
def test_what_only_looks_like_one_is_none(text: str, name: str) -> None:
    assert not taken(text, **{name: TEXT})


def test_a_repository_is_not_the_name_alone_where_its_owner_is_a_value_of_its_own() -> None:
    assert not taken("merge 482 in acme/web", repo=TEXT, owner=TEXT)


def test_a_phone_number_that_is_to_be_a_number_has_digits_alone() -> None:
    assert taken("verify the phone number +44 7700 900123", phone={"type": "integer"}) == {"phone": 447700900123}


def test_a_parameter_takes_a_phone_number_by_its_description() -> None:
    number = {"type": "string", "description": "Number in international form, +49..."}
    assert taken("text +44 7700 900123: running late", to=number, body=TEXT) == {
        "to": "+44 7700 900123",
        "body": "running late",
    }


@pytest.mark.parametrize(
    "identifier",
    ["7f3a-21", "44-1209", "9ab1", "1Z44", "USR002", "JJD0003939", "TS-RED-M", "B08N5WG761", "6lggWd5q9Rh66OkDE1eNDr"],
)
def test_an_identifier_beside_its_name_needs_no_quotes(identifier: str) -> None:
    assert taken(f"show envelope {identifier} to me", envelope_id=ID) == {"envelope_id": identifier}


@pytest.mark.parametrize("text", ["show envelope 10pm", "an envelope of 30min", "the envelope 100USD", "envelope 3rd"])
def test_a_number_with_its_unit_is_none(text: str) -> None:
    assert not taken(text, envelope_id=ID)


def test_an_optional_identifier_is_known_by_the_word_before_it() -> None:
    given = schema("order_id", order_id=ID, trackingNumber={"type": "string", "description": "Parcel number"})
    assert extract(given, "mark order 9922 as shipped, tracking JJD0003939").values == {
        "order_id": "9922",
        "trackingNumber": "JJD0003939",
    }


def test_what_a_message_says_is_no_value_of_another_parameter() -> None:
    assert taken("post this in #general: order 12 is late", channel=TEXT, text=TEXT, order_id=ID) == {
        "channel": "#general",
        "text": "order 12 is late",
    }


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("create a channel called Acme", "Acme"),
        ("create a channel for a customer called Acme", None),
        ("create a channel named after the project called Atlas", None),
        ("create a channel for the person who called Ann.", None),
    ],
)
def test_a_name_is_that_of_what_the_tool_is_about(text: str, name: str | None) -> None:
    assert extract(schema("name", name=TEXT), text, nouns=frozenset(["channel"])).values.get("name") == name


def test_a_version_of_two_parts_is_a_number_where_one_is_wanted() -> None:
    assert taken("set version 2.3", version={"type": "number"}) == {"version": 2.3}
