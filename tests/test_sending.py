"""Verbs that are the name of what they send are read as what tools do: "text him" sends a text."""

import pytest

from orchestrator import Router
from orchestrator.language.sending import in_full
from orchestrator.planning.planner import plan
from orchestrator.records.plan import PlanRequest
from orchestrator.records.request import RouteHint, RouteRequest
from orchestrator.routing.understand import understand


@pytest.mark.parametrize(
    ("task", "tool"),
    [
        ("text him", "twilio:send_sms"),
        ("text Ana that I am late", "twilio:send_sms"),
        ("email Bo", "gmail:send_email"),
        ("mail it to cfo@example.org", "gmail:send_email"),
        ("Email Bo the minutes", "gmail:send_email"),
        ("refund the charge, then email our accountant", "gmail:send_email"),
    ],
)
@pytest.mark.parametrize("hint", [RouteHint.KEYWORD, RouteHint.SEMANTIC])
async def test_a_verb_that_names_what_it_sends_finds_the_tool_that_sends_it(
    router: Router, task: str, tool: str, hint: RouteHint
) -> None:
    decision = await router.route(RouteRequest(query=task, tenant="local", route_hint=hint, limit=3))
    assert tool in {match.tool.key for match in decision.matches if match.score > 0.3}


async def test_a_call_is_made_by_the_tool_that_calls_and_not_by_the_one_that_sends_texts(router: Router) -> None:
    decision = await router.route("phone her")
    assert decision.recommended == ("twilio:place_call",)


@pytest.mark.parametrize(
    ("said", "full"),
    [
        ("text him", "send text him"),
        ("1) text her 2) phone him", "1) send text her 2) make phone call phone him"),
        ("could you please e-mail everybody", "could you please send e-mail everybody"),
        ("fax the contract to Ana", "send fax the contract to Ana"),
        ("Text Ana that I am late", "send Text Ana that I am late"),
        ("text +44 20 7946 0000", "send text +44 20 7946 0000"),
        ("dial +44 20 7946 0000", "make phone call dial +44 20 7946 0000"),
        ("I'd like to email Bo about it", "I'd like to send email Bo about it"),
    ],
)
def test_what_is_done_is_said_before_the_verb(said: str, full: str) -> None:
    assert in_full(said) == full


@pytest.mark.parametrize(
    ("said", "full"),
    [
        ("ask the team to restart it", "send message: ask the team to restart it"),
        ("Refund ch_3 and tell her when", "Refund ch_3 and send message: tell her when"),
        ("warn #ops that it is full", "send channel message: warn #ops that it is full"),
        ("let everyone know", "send message: let everyone know"),
        ("Please write to Mr Okafor.", "Please send message: write to Mr Okafor."),
        ("reach out to the customer about it", "send message: reach out to the customer about it"),
        ("page him that checkout is down", "send message: page him that checkout is down"),
        ("Please ask Maria to refund it", "Please send message: ask Maria to refund it"),
        ("ask Maria how we refund it", "send message: ask Maria how we refund it"),
        ("ask Maria why it was refunded", "send message: ask Maria why it was refunded"),
        ("tell my wife I'll be late", "send message: tell my wife I'll be late"),
        ("let Bob know that I'm late", "send message: let Bob know that I'm late"),
    ],
)
def test_what_somebody_is_told_or_asked_is_a_message(said: str, full: str) -> None:
    assert in_full(said, names={"stripe", "calendar"}) == full


@pytest.mark.parametrize(
    "said",
    [
        "ask Stripe to refund ch_3",
        "tell my calendar to move it",
        "tell me the balance",
        "let me know when it is done",
        "ask AWS for the bill",
        "ask Confluence about the policy",
        "Ask Siri what the weather is",
        "Ask Siri how warm it is in Oslo",
        "tell payroll to run for March",
        "ask the user which region",
        "what did you tell Maria about it",
        "Ask Questions",
        "write to Stripe",
        "write to the log",
        "post 'tell Maria to refund it' on the board",
    ],
)
def test_what_the_assistant_or_a_server_is_told_or_asked_is_none(said: str) -> None:
    assert in_full(said, names={"stripe", "calendar", "payrol"}) == said


def test_without_a_catalogue_no_name_is_taken_for_a_person() -> None:
    assert in_full("ask Maria to refund it") == "ask Maria to refund it"


@pytest.mark.parametrize(
    ("task", "tools"),
    [
        ("Ask Bob to restart the api deployment", {"gmail:send_email", "twilio:send_sms"}),
        ("tell my wife I'll be late", {"gmail:send_email", "twilio:send_sms"}),
        ("Refund charge ch_3 and let Maria know it is done", {"gmail:send_email", "twilio:send_sms"}),
    ],
)
async def test_a_message_to_somebody_is_planned_and_not_what_they_are_asked_to_do(
    router: Router, task: str, tools: set[str]
) -> None:
    made = plan(PlanRequest(decision=await router.route(task)))
    assert made.steps[-1].tool in tools


@pytest.mark.parametrize(
    "said",
    [
        "check email Ana sent",
        "reply to email Ana sent",
        "remind me to text her tomorrow",
        "find the user who promised to text me",
        "convert speech to text every morning",
        "do not call or text him",
        "why did you email us",
        "import this list:\nname,email\nBo Smith",
        "add Demo Bakery as a customer, fax 555 0100 222",
        "translate 'Please email Bo the minutes' into German",
        "Mail me nothing",
        "reply to the text the landlord wrote",
        "Email Marketing stats",
        "SELECT id, email FROM users",
        "add Demo Bakery as a customer, phone 555 0100 222",
        "summarize the text",
        "email",
        "who phoned me",
        "text summarization",
    ],
)
def test_a_name_of_a_thing_is_left_alone(said: str) -> None:
    assert in_full(said) == said


def test_a_pasted_document_is_left_alone() -> None:
    document = "text him\n" * 1000
    assert in_full(document) == document


def test_both_legs_read_it_in_the_whole_in_its_parts_and_in_earlier_turns_and_the_parts_stay_as_they_were_said() -> (
    None
):
    understood = understand("refund the charge of Ann, and text her about it", [("email our accountant", 0.5)])
    assert "send" in understood.terms
    assert "send" in understood.parts[1].terms
    assert [text.count("send text") for text in understood.texts] == [1, 0, 1, 0]
    assert understood.texts[-1] == "send email our accountant"
    assert understood.parts[1].text == "text her about it"
    assert understand("and the next one?", [("email our accountant", 0.5)]).terms["send"] == 0.5


def test_an_embedder_reads_who_is_told_and_of_a_report_no_more() -> None:
    said = [understand(text, names=set()).texts[0] for text in ("tell my wife I'll be late", "ask him about the bill")]
    assert said == ["send message: tell my wife", "send message: ask him about the bill"]
