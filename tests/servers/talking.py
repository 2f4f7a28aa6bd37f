"""A server with more than tools: resources, prompts, completions, and tools that ask, log and change lists.

Run: `python talking.py`. It has every protocol, and answers a client of 2026-07-28 with its questions.
"""

import asyncio
import json
import os
from typing import Any

from mcp import MCPError, types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourcesListChanged, ResourceUpdated

Context = ServerRequestContext[Any, Any]
BUS = InMemorySubscriptionBus()
REFUSALS = int(os.environ.get("REFUSED_SUBSCRIPTIONS", "0"))
"""The number of subscriptions that are refused, each after a moment."""
FORM = {"type": "object", "properties": {"name": {"type": "string"}}}
QUESTIONS: dict[str, Any] = {
    "ask": types.ElicitRequest(params=types.ElicitRequestFormParams(message="Your name?", requested_schema=FORM)),
    "visit": types.ElicitRequest(
        params=types.ElicitRequestURLParams(message="Pay", url="https://pay.example/1", elicitation_id="1")
    ),
    "think": types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(
            messages=[types.SamplingMessage(role="user", content=types.TextContent(text="Think"))], max_tokens=5
        )
    ),
    "roots": types.ListRootsRequest(),
}
RESULTS: dict[str, Any] = {
    "ask": types.ElicitResult,
    "visit": types.ElicitResult,
    "think": types.CreateMessageResult,
    "roots": types.ListRootsResult,
}
notes = ["memo://first"]
LISTENERS = ListenHandler(BUS)


async def list_tools(_: Context, __: Any) -> types.ListToolsResult:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    names = [*QUESTIONS, "log", "touch", "add_note", "link", "pay", "meta", "rows"]
    icon = types.Icon(src="https://icons.example/note.png")
    tools = [
        types.Tool(name=name, title=name.title(), description=f"Do {name}.", input_schema=schema) for name in names
    ]
    rows = {"type": "object", "properties": {"rows": {"type": "array"}}}
    tools[-1] = tools[-1].model_copy(update={"output_schema": rows, "icons": [icon]})
    shown = {"ui": {"resourceUri": "ui://memo/view"}, "example.com/key": os.environ.get("API_KEY", "")}
    tools[-2] = tools[-2].model_copy(update={"meta": shown})
    return types.ListToolsResult(tools=tools)


async def call_tool(context: Context, params: types.CallToolRequestParams) -> Any:
    name, text = params.name, str((params.arguments or {}).get("text", ""))
    if name in QUESTIONS:
        return await _asked(context, params, name)
    if name == "pay":
        link = {
            "mode": "url",
            "message": "Pay",
            "url": f"https://pay.example/{os.environ.get('API_KEY')}",
            "elicitationId": "1",
        }
        raise MCPError(types.URL_ELICITATION_REQUIRED, "pay first", {"elicitations": [link]})
    if name == "log":
        await _log(context, text)
    if name == "touch":
        await BUS.publish(ResourceUpdated(uri="memo://first"))
        await context.session.send_resource_updated("memo://first")
    if name == "add_note":
        notes.append(f"memo://{text}")
        await BUS.publish(ResourcesListChanged())
        await context.session.send_notification(types.ResourceListChangedNotification())
    if name == "meta":
        received = json.dumps(dict(context.meta or {}), sort_keys=True)
        meta = {"example.com/of": "result", "example.com/key": os.environ.get("API_KEY", "")}
        block = types.TextContent(text=received, _meta={"example.com/of": "block"})
        return types.CallToolResult(content=[block], _meta=meta)
    content: list[Any] = [types.TextContent(text="done")]
    structured = None
    if name == "link":
        content.append(types.ResourceLink(uri="memo://linked", name="linked"))
        embedded = types.TextResourceContents(uri="memo://embedded", text="a memo")
        content.append(types.EmbeddedResource(resource=embedded))
    if name == "rows":
        structured = {"rows": [{"id": number, "word": f"word {number}"} for number in range(int(text))]}
        content = [types.TextContent(text="\n".join(f"word {number}" for number in range(int(text))))]
    return types.CallToolResult(content=content, structured_content=structured)


async def _asked(context: Context, params: types.CallToolRequestParams, name: str) -> Any:
    question = QUESTIONS[name]
    if context.protocol_version == "2026-07-28":
        if not params.input_responses:
            return types.InputRequiredResult(input_requests={"q": question}, request_state="state of ours")
        assert params.request_state == "state of ours"
        answer: Any = params.input_responses["q"]
    else:
        from mcp.shared.message import ServerMessageMetadata

        related = ServerMessageMetadata(related_request_id=context.request_id)
        answer = await context.session.send_request(question, RESULTS[name], metadata=related)
    return types.CallToolResult(content=[types.TextContent(text=answer.model_dump_json(exclude_none=True))])


async def _log(context: Context, text: str) -> None:
    params = types.LoggingMessageNotificationParams(level="info", data=f"{text} {os.environ.get('API_KEY', '')}")
    await context.session.send_notification(types.LoggingMessageNotification(params=params), context.request_id)


async def list_resources(_: Context, __: Any) -> types.ListResourcesResult:
    return types.ListResourcesResult(
        resources=[types.Resource(uri=uri, name=uri[7:], _meta={"of": uri}) for uri in notes]
    )


async def list_templates(_: Context, __: Any) -> types.ListResourceTemplatesResult:
    template = types.ResourceTemplate(uri_template="memo://by/{author}", name="by author")
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def read_resource(_: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    text = f"{params.uri} of {os.environ.get('OWNER', 'nobody')} {os.environ.get('API_KEY', '')}"
    if params.uri.endswith("/long"):
        text = "x" * 1_200_000
    return types.ReadResourceResult(contents=[types.TextResourceContents(uri=params.uri, text=text)])


async def refuse() -> None:
    global REFUSALS
    if REFUSALS:
        REFUSALS -= 1
        await asyncio.sleep(0.3)
        raise MCPError(types.INTERNAL_ERROR, "no subscriptions yet")


async def listen(context: Context, params: types.SubscriptionsListenRequestParams) -> Any:
    await refuse()
    return await LISTENERS(context, params)


async def subscribe(_: Context, __: Any) -> types.EmptyResult:
    await refuse()
    return types.EmptyResult()


async def list_prompts(_: Context, __: Any) -> types.ListPromptsResult:
    arguments = [types.PromptArgument(name="topic", required=True)]
    return types.ListPromptsResult(prompts=[types.Prompt(name="write", description="Write.", arguments=arguments)])


async def get_prompt(_: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
    said = types.TextContent(text=f"Write about {(params.arguments or {})['topic']}")
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=said)])


async def complete(_: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
    return types.CompleteResult(completion=types.Completion(values=[f"{params.argument.value}da", params.ref.type]))


async def set_level(_: Context, __: Any) -> types.EmptyResult:
    return types.EmptyResult()


server: Server[Any] = Server(
    "talking",
    instructions="Always call `ask` before `think`.",
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    on_list_resources=list_resources,
    on_list_resource_templates=list_templates,
    on_read_resource=read_resource,
    on_subscribe_resource=subscribe,
    on_unsubscribe_resource=subscribe,
    on_subscriptions_listen=listen,
    on_list_prompts=list_prompts,
    on_get_prompt=get_prompt,
    on_completion=complete,
)
server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, set_level)


async def main() -> None:
    async with stdio_server() as (read, write):
        options = server.create_initialization_options(NotificationOptions(True, True, True))
        await server.run(read, write, options)


if __name__ == "__main__":
    asyncio.run(main())
