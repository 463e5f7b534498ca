"""The paths of OpenAI's API over HTTP."""

import asyncio
import contextlib
import json
import time
import uuid

from aiohttp import web

from lagoon.openai.requests import ApiError, parse
from lagoon.openai.tokens import GrowingText

MOST_BODY_BYTES = 1 << 20
MOST_REQUESTS = 256  # at a time
MOST_READ_SECONDS = 10  # for a body; a request takes no place among MOST_REQUESTS before its body is there
MOST_WRITE_SECONDS = 10  # a client that takes nothing for longer is dropped


class Front:
    """Serves the models of `tokenizers`, {name: Tokenizer}, on a Backend."""

    def __init__(self, backend, tokenizers):
        self._backend, self._tokenizers = backend, tokenizers
        self._started = int(time.time())
        self._running = 0

    def app(self):
        app = web.Application(client_max_size=MOST_BODY_BYTES, middlewares=[_errors])
        app.router.add_post("/v1/chat/completions", lambda http: self._complete(http, chat=True))
        app.router.add_post("/v1/completions", lambda http: self._complete(http, chat=False))
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/v1/models/{model:.+}", self._model)
        app.router.add_get("/health", lambda _: web.Response(text="ok"))
        return app

    def _about(self, name):
        return {"id": name, "object": "model", "created": self._started, "owned_by": "lagoon"}

    async def _models(self, _):
        ready = [name for name in self._tokenizers if await self._backend.ready(name)]
        return web.json_response({"object": "list", "data": [self._about(name) for name in ready]})

    async def _model(self, http):
        name = http.match_info["model"]
        if name not in self._tokenizers:
            raise _unknown(name)
        return web.json_response(self._about(name))

    async def _complete(self, http, chat):
        body = await _body(http)
        if self._running >= MOST_REQUESTS:
            raise ApiError(503, f"{self._running} requests are in progress, the most; try again later")
        self._running += 1
        try:
            return await self._answer(http, parse(body, chat))
        finally:
            self._running -= 1

    async def _answer(self, http, request):
        tokenizer = self._tokenizers.get(request.model)
        if tokenizer is None:
            raise _unknown(request.model)
        limits = await self._backend.limits(request.model)
        tokens = await asyncio.to_thread(_tokens, tokenizer, request)
        param = "prompt" if request.messages is None else "messages"
        if not tokens:
            raise ApiError(400, "the prompt is empty", param)
        if len(tokens) > limits.context:
            raise ApiError(400, f"the prompt has {len(tokens)} tokens, the context of model '{request.model}' has "
                                f"{limits.context}", param, "context_length_exceeded")
        if len(tokenizer.stop_tokens) > limits.stops:
            raise ApiError(500, f"the tokenizer of model '{request.model}' has {len(tokenizer.stop_tokens)} stop "
                                f"tokens, the model takes {limits.stops}")
        stops = tokenizer.stop_tokens
        generated = self._backend.generate(request.model, limits, tokens, stops, request)
        completion = Completion(request, len(tokens), generated, GrowingText(tokenizer, request.stop), set(stops))
        try:
            return await (_stream(http, completion) if request.stream else _whole(completion))
        finally:
            await generated.aclose()


class Completion:
    """A text that is being made, and how it is written."""

    def __init__(self, request, prompt_tokens, generated, text, stop_tokens):
        self.request = request
        self._generated, self._text, self._stop_tokens = generated, text, stop_tokens
        self._prompt_tokens, self._count = prompt_tokens, 0
        self._chat = request.messages is not None
        self._head = {"id": ("chatcmpl-" if self._chat else "cmpl-") + uuid.uuid4().hex, "created": int(time.time()),
                      "model": request.model}
        self.finish_reason = None

    async def pieces(self):
        """The text in pieces. Then finish_reason is known."""
        reason = "length"
        async for token in self._generated:
            self._count += 1
            if token in self._stop_tokens:
                reason = "stop"
                break
            if piece := self._text.add(token):
                yield piece
            if self._text.stopped:
                break
        if piece := self._text.finish():
            yield piece
        self.finish_reason = "stop" if self._text.stopped else reason

    def usage(self):
        return {"prompt_tokens": self._prompt_tokens, "completion_tokens": self._count,
                "total_tokens": self._prompt_tokens + self._count}

    def whole(self, text):
        content = {"message": {"role": "assistant", "content": text}} if self._chat else {"text": text}
        choice = {"index": 0, **content, "logprobs": None, "finish_reason": self.finish_reason}
        kind = "chat.completion" if self._chat else "text_completion"
        return {**self._head, "object": kind, "choices": [choice], "usage": self.usage()}

    def chunk(self, text=None, first=False):
        delta = {"role": "assistant", "content": ""} if first else {} if text is None else {"content": text}
        content = {"delta": delta} if self._chat else {"text": text or ""}
        return self._chunk([{"index": 0, **content, "logprobs": None, "finish_reason": self.finish_reason}])

    def usage_chunk(self):
        return {**self._chunk([]), "usage": self.usage()}

    def _chunk(self, choices):
        kind = "chat.completion.chunk" if self._chat else "text_completion"
        return {**self._head, "object": kind, "choices": choices}


async def _body(http):
    try:
        return await asyncio.wait_for(http.read(), MOST_READ_SECONDS)
    except TimeoutError as error:
        raise ApiError(408, f"the body took more than {MOST_READ_SECONDS} s") from error
    except web.RequestPayloadError as error:
        raise ApiError(400, f"the body cannot be read: {' '.join(str(error).split())}") from error


def _tokens(tokenizer, request):
    if request.messages is not None:
        try:
            return tokenizer.encode_chat(request.messages)
        except ValueError as error:
            raise ApiError(400, str(error), "messages") from error
    return request.prompt if isinstance(request.prompt, list) else tokenizer.encode(request.prompt)


async def _whole(completion):
    text = "".join([piece async for piece in completion.pieces()])
    return web.json_response(completion.whole(text))


async def _stream(http, completion):
    """Begins with the first piece, so that an error before has a status of its own."""
    pieces = completion.pieces()
    piece = await _next(pieces)
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
    with contextlib.suppress(ConnectionError, TimeoutError):  # the client has left, or takes nothing
        await response.prepare(http)
        await _write(response, completion, pieces, piece)
        await response.write_eof()
        return response
    if http.transport is not None:
        http.transport.abort()
    return response


async def _write(response, completion, pieces, piece):
    async def send(event):
        text = event if isinstance(event, str) else json.dumps(event)
        await asyncio.wait_for(response.write(f"data: {text}\n\n".encode()), MOST_WRITE_SECONDS)
    try:
        if completion.request.messages is not None:
            await send(completion.chunk(first=True))
        while piece is not None:
            await send(completion.chunk(piece))
            piece = await _next(pieces)
        await send(completion.chunk())
        if completion.request.include_usage:
            await send(completion.usage_chunk())
    except ApiError as error:
        await send(error.body())
    await send("[DONE]")


async def _next(pieces):
    async for piece in pieces:
        return piece
    return None


def _unknown(name):
    return ApiError(404, f"there is no model '{name[:100]}' here", "model", "model_not_found")


@web.middleware
async def _errors(http, handler):
    """Every error is an object of OpenAI's form."""
    try:
        return await handler(http)
    except ApiError as error:
        return web.json_response(error.body(), status=error.status)
    except web.HTTPException as error:
        found = ApiError(error.status, f"{http.method} {http.path[:100]}: {error.reason}")
        return web.json_response(found.body(), status=error.status)
