"""The language model: any endpoint that speaks OpenAI's Chat Completions, asked for texts and structures.

Only here is the client used. One retry layer: `tries` counts in processes of our own; inside an activity it is 1, and
Temporal's policy tries again, after as long as the endpoint asked for.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Self

from pydantic import BaseModel

from orchestrator.errors import (
    AnswerInvalid,
    InvalidConfig,
    InvalidInput,
    ModelUnavailable,
    NoCredit,
    ToolrouteError,
    Unauthorised,
)
from orchestrator.index.endpoints import NO_KEY, OPENAI_URL, address, complaint, secrets_of, unanswered
from orchestrator.llm.replies import text_of, usage_of, well_formed, with_usage
from orchestrator.llm.structured import Message, Shape, asked_as_schema, asked_in_words, read, repair
from orchestrator.options import Options, model_key
from orchestrator.records.completion import Usage
from orchestrator.records.redact import LogFilter, Secrets

if TYPE_CHECKING:
    from openai import AsyncOpenAI

LONGEST_WAIT_S = 30.0
"""A Retry-After beyond this is not waited for: the caller goes on without the model."""
_CONNECT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply(Generic[Shape]):
    """A checked answer, what it took (a repair included), and the name by which the model was asked."""

    value: Shape
    usage: Usage
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dialect:
    """What an endpoint has been found to understand; it starts with what OpenAI does."""

    structured: bool = True
    limit: str = "max_completion_tokens"


class Models:
    """Which model does what, at one endpoint. Opens on first use, for one event loop; close it, or use `async with`.

    The key is read from the environment when the client opens, unless one is given; no repr, error or log shows it.
    """

    def __init__(self, options: Options, *, api_key: str | None = None, tries: int = 3) -> None:
        self.route_model = options.model_route or options.model or options.model_plan
        self.plan_model = options.model_plan or options.model or options.model_route
        if not self.route_model:
            raise InvalidConfig("no model is named: set TOOLROUTE_MODEL, or give Options(model=...)")
        self.url, self._timeout_s = options.model_url or OPENAI_URL, options.model_timeout_s
        self.tries = tries
        self._given_key = api_key
        # Endpoints other than OpenAI's tend to know the older name alone.
        self._dialect = _Dialect() if self.url == OPENAI_URL else _Dialect(limit="max_tokens")
        self._client: AsyncOpenAI | None = None

    def __repr__(self) -> str:
        return f"Models(route={self.route_model!r}, plan={self.plan_model!r}, url={self.where!r})"

    @property
    def where(self) -> str:
        """The endpoint's address for people: without a password or a key that stands in it."""
        return address(self.url)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the client; a later question opens another."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def ask(
        self,
        model: str,
        messages: Sequence[Message],
        shape: type[Shape],
        *,
        max_output_tokens: int = 2_000,
        check: Callable[[Shape], Sequence[str]] = lambda _: (),
    ) -> Reply[Shape]:
        """The answer in this shape; one that is malformed, cut off or fails the check goes back once with the faults.

        Raises ModelUnavailable, Unauthorised, InvalidConfig, InvalidInput or a ModelFailed.
        """
        said, usage, problems = list(messages), Usage(), [""]
        for _ in range(2):
            try:
                answer, took = await self._complete(model, said, shape, max_output_tokens)
            except ToolrouteError as error:
                error.usage = usage
                raise
            usage += took
            text, is_cut = text_of(answer, usage, max_output_tokens)
            value, problems = read(text, shape, cut=is_cut)
            problems = problems if value is None else list(check(value))
            if value is not None and not problems:
                return Reply(value=value, usage=usage, model=model)
            said = [*messages, {"role": "assistant", "content": text or "(nothing)"}, repair(problems)]
        raise with_usage(AnswerInvalid(f"model {model!r}: {'; '.join(problems)[:1000]}"), usage)

    async def write(
        self, model: str, messages: Sequence[Message], *, max_output_tokens: int = 2_000
    ) -> tuple[str, Usage]:
        """The answer as text; one that reached the limit is marked."""
        answer, usage = await self._complete(model, messages, None, max_output_tokens)
        text, is_cut = text_of(answer, usage, max_output_tokens)
        if not text.strip():
            raise with_usage(AnswerInvalid(f"model {model!r} answered nothing"), usage)
        return (f"{text.strip()}\n[cut: the answer reached its limit]" if is_cut else text.strip()), usage

    async def _complete(
        self, model: str, messages: Sequence[Message], shape: type[BaseModel] | None, limit: int
    ) -> tuple[Any, Usage]:
        """The first choice and what it took; tries again what may pass by itself."""
        from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt

        trying = AsyncRetrying(
            stop=stop_after_attempt(self.tries), retry=retry_if_exception(_may_pass), wait=_wait, reraise=True
        )
        return await trying(self._in_its_dialect, model, messages, shape, limit)

    async def _in_its_dialect(
        self, model: str, messages: Sequence[Message], shape: type[BaseModel] | None, limit: int
    ) -> tuple[Any, Usage]:
        """One request; where the endpoint says that it knows no JSON schema, or this limit's name, one more without.

        Only what was understood is kept: a limit may also be complained about as too large.
        """
        import openai

        known = dialect = self._dialect
        while True:
            try:
                answered = await self._request(model, messages, shape, limit, dialect)
            except openai.BadRequestError as error:
                simpler = _simpler(dialect, known, str(error), shape is not None)
                if simpler == dialect:
                    raise self._told(error, model) from None
                dialect = simpler
            else:
                self._dialect = dialect
                return answered

    async def _request(
        self, model: str, messages: Sequence[Message], shape: type[BaseModel] | None, limit: int, dialect: _Dialect
    ) -> tuple[Any, Usage]:
        import openai

        body: dict[str, Any] = {"model": model, "messages": list(messages), dialect.limit: limit}
        if shape is not None:
            body |= asked_as_schema(shape) if dialect.structured else asked_in_words(shape, messages)
        try:
            # The client's own timeout begins anew with every byte that arrives.
            async with asyncio.timeout(self._timeout_s):
                with LogFilter(self._secrets):
                    completion = await self._open().chat.completions.create(**body)
            return well_formed(completion.choices[0]), usage_of(completion.usage)
        except TimeoutError:
            told = f"model {model!r} at {self.where} gave no whole answer within {self._timeout_s:g} s"
            raise ModelUnavailable(told) from None
        except openai.BadRequestError:
            raise
        except openai.OpenAIError as error:
            raise self._told(error, model) from None
        except (ArithmeticError, ValueError, TypeError, AttributeError, LookupError):
            told = f"the endpoint of model {model!r} answered something that is no chat completion"
            raise ModelUnavailable(told) from None

    def _open(self) -> "AsyncOpenAI":
        if self._client is None:
            import httpx2
            from openai import AsyncOpenAI

            key = self._key()
            if not key and self.url == OPENAI_URL:
                raise Unauthorised(NO_KEY)
            timeout = httpx2.Timeout(self._timeout_s, connect=min(_CONNECT_S, self._timeout_s))
            self._client = AsyncOpenAI(api_key=key or "none", base_url=self.url, max_retries=0, timeout=timeout)
        return self._client

    def _key(self) -> str:
        return self._given_key or model_key() or ""

    @property
    def _secrets(self) -> Secrets:
        return secrets_of(self.url, self._key())

    def _told(self, error: Exception, model: str) -> ToolrouteError:
        """The client's error as one of ours, by what the caller can do about it."""
        status = getattr(error, "status_code", None)
        said = complaint(error, self._secrets)
        where = f"model {model!r} at {self.where}"
        if status in (401, 403):
            return Unauthorised(f"{where} refused the key (HTTP {status}): set OPENAI_API_KEY to one that it knows")
        if status == 404:
            return InvalidConfig(f"{where} is not there (HTTP 404{said}): name another in TOOLROUTE_MODEL")
        if status == 429 and "insufficient_quota" in (getattr(error, "code", None), getattr(error, "type", None)):
            return NoCredit(f"{where}: the account's quota is used up (HTTP 429{said})")
        if status is not None and status < 500 and status not in (408, 409, 429):
            return InvalidInput(f"{where} refused the request (HTTP {status}{said})")
        reason = f"HTTP {status}{said}" if status else unanswered(error)
        told = ModelUnavailable(f"{where} did not answer: {reason}")
        told.retry_after_s = _retry_after(error)
        if told.retry_after_s is not None and told.retry_after_s > LONGEST_WAIT_S:
            told.retry = False
        return told


def models_for(options: Options) -> Models | None:
    """The models that the options name, or None."""
    named = options.model or options.model_route or options.model_plan
    return Models(options) if named else None


def _simpler(dialect: _Dialect, known: _Dialect, said: str, structured: bool) -> _Dialect:
    """The dialect without what the endpoint complained about; the limit has the other name once, not in turns."""
    if structured and dialect.structured and any(word in said for word in ("response_format", "json_schema")):
        return replace(dialect, structured=False)
    if dialect.limit == known.limit and dialect.limit in said:
        other = "max_tokens" if dialect.limit == "max_completion_tokens" else "max_completion_tokens"
        return replace(dialect, limit=other)
    return dialect


def _retry_after(error: Exception) -> float | None:
    response = getattr(error, "response", None)
    try:
        return max(0.0, float(response.headers["retry-after"])) if response is not None else None
    except (KeyError, ValueError):
        return None


def _may_pass(error: BaseException) -> bool:
    return isinstance(error, ToolrouteError) and error.retry


def _wait(state: Any) -> float:
    """As long as the endpoint asked, else half a second, doubled each time."""
    asked = getattr(state.outcome.exception(), "retry_after_s", None)
    return float(asked) if asked is not None else 0.5 * 2 ** (state.attempt_number - 1)
