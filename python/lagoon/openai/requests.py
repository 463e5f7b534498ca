"""Requests of OpenAI's API: what is read of them, and how errors are written."""

import dataclasses
import json
import secrets

MOST_STOPS, MOST_STOP_CHARACTERS = 8, 256
# Fields that change the answer in a way that is not served, with the values that mean nothing.
UNSERVED = {"n": (1,), "best_of": (1,), "logprobs": (False, 0), "top_logprobs": (0,), "echo": (False,), "suffix": ("",),
            "presence_penalty": (0, 0.0), "frequency_penalty": (0, 0.0), "logit_bias": ({},), "tools": ([],),
            "functions": ([],), "response_format": ({"type": "text"},), "modalities": (["text"],)}


class ApiError(Exception):
    """An answer that is an error. `param`: the field of the request that it is about."""

    def __init__(self, status, message, param=None, code=None):
        super().__init__(message)
        self.status, self.message, self.param, self.code = status, message, param, code

    def body(self):
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}
USUAL_TOKENS = 16  # of a text where max_tokens is not given, as OpenAI has it; those of a chat end by themselves


@dataclasses.dataclass
class Request:
    """A request to complete a chat (`messages`) or a text (`prompt`, a text or tokens)."""

    model: str
    messages: list = None
    prompt: object = None
    max_tokens: int = None
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int = 0
    stop: list = dataclasses.field(default_factory=list)
    stream: bool = False
    include_usage: bool = False
    priority: int = 0


def parse(text, chat):
    """The Request in a body. ApiError: it is none."""
    body = _load(text)
    for name, nothing in UNSERVED.items():
        value = body.get(name)
        if value is not None and not any(type(value) is type(one) and value == one for one in nothing):
            raise ApiError(400, f"'{name}' is not served", name)
    request = Request(_text(body, "model"))
    if chat:
        request.messages = _messages(body)
    else:
        request.prompt = _prompt(body)
    longest = "max_completion_tokens" if body.get("max_completion_tokens") is not None else "max_tokens"
    request.max_tokens = _whole(body, longest, None if chat else USUAL_TOKENS, 1)
    request.temperature = _number(body, "temperature", 1.0, 0, 2)
    request.top_p = max(_number(body, "top_p", 1.0, 0, 1), 1e-6)  # 0: the most probable token
    request.seed = _whole(body, "seed", secrets.randbits(62), -2 ** 63)
    request.stop = _stops(body)
    request.stream = _flag(body, "stream")
    options = body.get("stream_options") or {}
    if not isinstance(options, dict):
        raise ApiError(400, "'stream_options' is no object", "stream_options")
    request.include_usage = _flag(options, "include_usage")
    request.priority = _whole(body, "priority", 0, 0)
    return request


def _load(text):
    def refuse(constant):
        raise ValueError(f"{constant} is no number of JSON")
    try:
        body = json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        reason = "too deeply nested" if isinstance(error, RecursionError) else error
        raise ApiError(400, f"the body is no JSON: {reason}") from error
    if not isinstance(body, dict):
        raise ApiError(400, "the body is no JSON object")
    return body


def _text(body, name):
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise ApiError(400, f"'{name}' must be a text", name)
    return _plain(value, name)


def _plain(text, name):
    """Half a surrogate pair is a text of Python, but has no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ApiError(400, f"'{name}' has half a character", name) from error
    return text


def _number(body, name, default, least, most):
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
        raise ApiError(400, f"'{name}' must be a number from {least} to {most}", name)
    return float(value)


def _whole(body, name, default, least):
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2 ** 63:
        raise ApiError(400, f"'{name}' must be a whole number from {least}", name)
    return value


def _flag(body, name):
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise ApiError(400, f"'{name}' must be true or false", name)
    return bool(value)


def _stops(body):
    stops = body.get("stop")
    stops = [] if stops is None else [stops] if isinstance(stops, str) else stops
    if (not isinstance(stops, list) or len(stops) > MOST_STOPS or
            not all(isinstance(stop, str) and 0 < len(stop) <= MOST_STOP_CHARACTERS for stop in stops)):
        raise ApiError(400, f"'stop' must be a text of up to {MOST_STOP_CHARACTERS} characters, or a list of up to "
                            f"{MOST_STOPS}", "stop")
    return [_plain(stop, "stop") for stop in stops]


def _prompt(body):
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], (str, list)):
        (prompt,) = prompt
    if isinstance(prompt, str):
        return _plain(prompt, "prompt")
    if isinstance(prompt, list) and prompt and all(
            isinstance(token, int) and not isinstance(token, bool) and 0 <= token < 2 ** 31 for token in prompt):
        return prompt
    raise ApiError(400, "'prompt' must be one text, or the tokens of one", "prompt")


def _messages(body):
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise ApiError(400, "'messages' must be a list with a message at least", "messages")
    return [_message(message, f"messages[{index}]") for index, message in enumerate(messages)]


def _message(message, name):
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise ApiError(400, f"'{name}' must be an object with a role and a content", name)
    content = message.get("content")
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None for part in content]
        content = None if None in parts or not all(isinstance(part, str) for part in parts) else "".join(parts)
    if not isinstance(content, str):
        raise ApiError(400, f"the content of '{name}' must be a text", name)
    return {"role": _plain(message["role"], name), "content": _plain(content, name)}
