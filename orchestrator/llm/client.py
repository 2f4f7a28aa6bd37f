"""The language model: any endpoint with OpenAI's Chat Completions, for texts and structured answers.

There is one layer of retries. `tries` applies in your own processes. In an activity it is 1, and Temporal's retry
policy decides. The OpenAI client's retries are off, because they repeat requests for an account without credit. Its
`parse` is not used, because it drops the text and the usage of an invalid answer, which are needed to repair it.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

from pydantic import BaseModel

from orchestrator.catalogue.tokens import compact, count_tokens
from orchestrator.common.endpoints import (
    NO_KEY,
    OPENAI_URL,
    complaint,
    unanswered,
)
from orchestrator.common.fields import named
from orchestrator.common.lines import whole_pairs
from orchestrator.common.redact import LogFilter, Secrets
from orchestrator.errors import (
    AnswerInvalid,
    InvalidConfig,
    InvalidInput,
    ModelFailed,
    ModelUnavailable,
    NoCredit,
    ToolrouteError,
    Unauthorised,
)
from orchestrator.llm.answers import (
    Answer,
    Message,
    Shape,
    answer_of,
    read_answer,
    repair_message,
    response_format,
    schema_of,
    with_usage,
)
from orchestrator.llm.endpoint import UNREADABLE, Endpoint
from orchestrator.options import Options, model_key
from orchestrator.records.usage import Usage

LONGEST_WAIT_S = 30.0
"""The maximum Retry-After, in seconds, that a call waits for. After a longer one, the caller continues without
the model."""
LEAST_ANSWER = 100
"""The minimum number of tokens for an answer. With fewer tokens left, the model is not asked."""


_LIMITS = frozenset(("max_completion_tokens", "max_tokens"))
"""The two names of the limit of an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dialect:
    """The request parameters that an endpoint has shown to understand."""

    structured: bool = True
    limit: str = "max_completion_tokens"


class Models:
    """The language models at one endpoint.

    The client opens on first use and closes with `async with`. In another event loop, a new client opens. No repr,
    error or log shows the key.

    Args:
        options: The names of the models, the endpoint and the timeout.
        api_key: The key. Default: OPENAI_API_KEY, read when the client opens.
        tries: The number of tries for a request whose failure may pass.

    Raises:
        InvalidConfig: The options name no model, or `tries` is below 1.

    Examples:
        >>> from orchestrator import Models, Options
        >>> Models(Options(model="gpt-5-mini")).plan_model
        'gpt-5-mini'
    """

    @named
    def __init__(self, options: Options, *, api_key: str | None = None, tries: int = 3) -> None:
        if tries < 1:
            raise InvalidConfig(f"tries={tries}: give 1 or more")
        self.route_model = options.model_route or options.model or options.model_plan
        self.plan_model = options.model_plan or options.model or options.model_route
        if not self.route_model:
            raise InvalidConfig(
                "no model is configured: set TOOLROUTE_MODEL, or give Options(model=...)"
            )
        self.url = options.model_url or OPENAI_URL
        self._endpoint = Endpoint(self.url, options.model_timeout_s)
        self.tries = tries
        self._given_key = api_key
        # Most endpoints other than OpenAI's know only the older name.
        self._dialect = _Dialect() if self.url == OPENAI_URL else _Dialect(limit="max_tokens")

    def __repr__(self) -> str:
        return f"Models(route={self.route_model!r}, plan={self.plan_model!r}, url={self.where!r})"

    @property
    def where(self) -> str:
        """The endpoint's address without a password or a key."""
        return self._endpoint.where

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the client. A later question opens a new one."""
        await self._endpoint.aclose()

    async def ask(
        self,
        model: str,
        messages: Sequence[Message],
        shape: type[Shape],
        *,
        max_output_tokens: int = 2_000,
        max_tokens: int | None = None,
        check: Callable[[Shape], Sequence[str]] = lambda _: (),
        repairs: int = 1,
    ) -> tuple[Shape, Usage]:
        """Return the model's answer in this shape. An invalid answer is sent back for repair, by default once.

        Args:
            model: The model's name.
            messages: The messages.
            shape: The pydantic model of the answer.
            max_output_tokens: The maximum number of tokens of one answer.
            max_tokens: The maximum number of tokens of all questions and answers together.
            check: Returns the problems with an answer.
            repairs: The number of repairs.

        Raises:
            ModelUnavailable: The endpoint does not answer.
            Unauthorised: The endpoint refused the key.
            InvalidConfig: The endpoint does not know the model.
            InvalidInput: The question is too long.
            ModelFailed: The answer is unusable. Every error has the usage so far.
        """
        conversation = list(messages)
        usage = Usage()
        problems: list[str] = []
        for _ in range(1 + repairs):
            with spent_before(usage):
                tokens_left = None if max_tokens is None else max_tokens - usage.total
                limit = _room(model, conversation, shape, max_output_tokens, tokens_left)
                answer = await self._complete(model, conversation, shape, limit)
            usage += answer.usage
            value, problems = read_answer(answer, shape)
            if value is not None:
                problems = list(check(value))
                if not problems:
                    return value, usage
            reply = {"role": "assistant", "content": answer.text or "(nothing)"}
            # Only the last answer is repaired: earlier ones would cost tokens and repeat their faults.
            conversation = [*messages, reply, repair_message(problems)]
        raise with_usage(AnswerInvalid(f"model {model!r}: {'; '.join(problems)[:1000]}"), usage)

    async def write(
        self,
        model: str,
        messages: Sequence[Message],
        *,
        max_output_tokens: int = 2_000,
        max_tokens: int | None = None,
    ) -> tuple[str, Usage]:
        """Return the answer as text. An answer that reached the limit is marked.

        Args:
            model: The model's name.
            messages: The messages.
            max_output_tokens: The maximum number of tokens of the answer.
            max_tokens: The maximum number of tokens of question and answer together.
        """
        limit = _room(model, messages, None, max_output_tokens, max_tokens)
        answer = await self._complete(model, messages, None, limit)
        text = answer.text.strip()
        if not text:
            raise with_usage(
                AnswerInvalid(f"model {model!r} returned an empty answer"), answer.usage
            )
        if answer.is_cut:
            text += "\n[cut: the answer reached its limit]"
        return text, answer.usage

    async def _complete(
        self, model: str, messages: Sequence[Message], shape: type[BaseModel] | None, limit: int
    ) -> Answer:
        """Send the request. Temporary failures are retried after the time that the endpoint gave."""
        from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt

        def wait(state: RetryCallState) -> float:
            error = state.outcome.exception() if state.outcome else None
            retry_after_s = getattr(error, "retry_after_s", None)
            if retry_after_s is not None:
                return float(retry_after_s)
            return float(0.5 * 2 ** (state.attempt_number - 1))

        again = AsyncRetrying(
            retry=retry_if_exception(
                lambda error: isinstance(error, ToolrouteError) and error.retry
            ),
            stop=stop_after_attempt(self.tries),
            wait=wait,
            reraise=True,
        )
        return await again(self._in_its_dialect, model, messages, shape, limit)

    async def _in_its_dialect(
        self, model: str, messages: Sequence[Message], shape: type[BaseModel] | None, limit: int
    ) -> Answer:
        """Send the request in the endpoint's dialect.

        If the endpoint rejects the JSON schema or the limit's name, the request is sent again without it.
        A dialect is kept only after a success, because an endpoint may also reject a limit as too large.
        """
        import openai

        first = self._dialect
        dialect = first
        while True:
            try:
                answer = await self._request(model, messages, shape, limit, dialect)
            except openai.BadRequestError as error:
                simpler = _simpler(dialect, first, str(error), shape is not None)
                if simpler == dialect:
                    raise self._error(error, model) from None
                dialect = simpler
            else:
                self._dialect = dialect
                return answer

    async def _request(
        self,
        model: str,
        messages: Sequence[Message],
        shape: type[BaseModel] | None,
        limit: int,
        dialect: _Dialect,
    ) -> Answer:
        import openai

        messages = [
            {name: whole_pairs(text) for name, text in message.items()} for message in messages
        ]
        body: dict[str, Any] = {"model": model, "messages": messages, dialect.limit: limit}
        if shape is not None:
            body |= response_format(shape, messages, structured=dialect.structured)
        try:
            # The client's own timeout starts again with every byte that arrives.
            async with asyncio.timeout(self._endpoint.timeout_s):
                with LogFilter(self._secrets):
                    client = self._endpoint.client(self._key)
                    completion = await client.chat.completions.create(**body)
            return answer_of(completion, limit)
        except TimeoutError:
            late = f"did not finish its answer within {self._endpoint.timeout_s:g} seconds: raise model_timeout_s"
            raise ModelUnavailable(f"model {model!r} at {self.where} {late}") from None
        except openai.BadRequestError:
            raise
        except openai.OpenAIError as error:
            raise self._error(error, model) from None
        except UNREADABLE:
            raise ModelUnavailable(
                f"the endpoint of model {model!r} did not answer with a chat completion"
            ) from None

    @property
    def _key(self) -> str:
        key = self._given_key or model_key() or ""
        if not key and self.url == OPENAI_URL:
            raise Unauthorised(NO_KEY)
        return key

    @property
    def _secrets(self) -> Secrets:
        return self._endpoint.secrets(self._key)

    def _error(self, error: Exception, model: str) -> ToolrouteError:
        """Return the client's error as a toolroute error, by the possible remedy."""
        status = getattr(error, "status_code", None)
        detail = complaint(error, self._secrets)
        where = f"model {model!r} at {self.where}"
        if status in (401, 403):
            return Unauthorised(
                f"{where} refused the key (HTTP {status}): set OPENAI_API_KEY to one that it accepts"
            )
        if status == 404:
            return InvalidConfig(
                f"{where} does not exist (HTTP 404{detail}): set TOOLROUTE_MODEL to another model"
            )
        if status == 429 and "insufficient_quota" in (
            getattr(error, "code", None),
            getattr(error, "type", None),
        ):
            return NoCredit(
                f"{where} has no quota left (HTTP 429{detail}): check the account's plan and billing"
            )
        if status is not None and status < 500 and status not in (408, 409, 429):
            return InvalidInput(f"{where} refused the request (HTTP {status}{detail})")
        reason = f"HTTP {status}{detail}" if status else unanswered(error)
        unavailable = ModelUnavailable(f"{where} did not answer: {reason}")
        unavailable.retry_after_s = _retry_after(error)
        unavailable.retry = (unavailable.retry_after_s or 0) <= LONGEST_WAIT_S
        return unavailable


@contextmanager
def spent_before(usage: Usage) -> Iterator[None]:
    """Add the tokens of earlier questions to the usage of an error."""
    try:
        yield
    except ToolrouteError as error:
        error.usage = usage + error.usage
        raise


def models_for(options: Options) -> Models | None:
    """Return the models that the options name, or None."""
    named = options.model or options.model_route or options.model_plan
    return Models(options) if named else None


def _room(
    model: str,
    messages: Sequence[Message],
    shape: type[BaseModel] | None,
    limit: int,
    tokens_left: int | None,
) -> int:
    """Return the maximum tokens of an answer: the limit, or the tokens left by the question."""
    if tokens_left is None:
        return limit
    question = list[Any](messages)
    if shape:
        question.append(schema_of(shape))
    needed = count_tokens(compact(question))
    if tokens_left - needed < min(limit, LEAST_ANSWER):
        few = f"the question needs {needed:,} tokens, but only {max(0, tokens_left):,} tokens of the budget are left"
        raise ModelFailed(f"model {model!r} was not asked: {few}")
    return min(limit, tokens_left - needed)


def _simpler(dialect: _Dialect, first: _Dialect, complaint: str, structured: bool) -> _Dialect:
    """Return the dialect without the parts that the endpoint rejected. The limit's name changes only once."""
    rejects_schema = "response_format" in complaint or "json_schema" in complaint
    if structured and dialect.structured and rejects_schema:
        return replace(dialect, structured=False)
    if dialect.limit == first.limit and dialect.limit in complaint:
        (other,) = _LIMITS - {dialect.limit}
        return replace(dialect, limit=other)
    return dialect


def _retry_after(error: Exception) -> float | None:
    response = getattr(error, "response", None)
    if response is None:
        return None
    try:
        return max(0.0, float(response.headers["retry-after"]))
    except (KeyError, ValueError):
        return None
