"""OpenAI's API in front of a server: texts of a tiny model with random weights, whose tokenizer is trained here."""

import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

import grpc
import pytest
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers
from tritonclient.grpc import service_pb2_grpc

from conftest import ROOT
from server_process import serving
from tiny_model import TinyModel, add_chat

sys.path.insert(0, str(ROOT / "python"))
# pylint: disable-next=wrong-import-position
from lagoon.openai.requests import ApiError, parse  # noqa: E402
from lagoon.openai.tokens import GrowingText, Tokenizer  # noqa: E402

VOCABULARY, LENGTH, ROWS = 300, 64, 2
END = "<|end|>"
TEMPLATE = ("{% for message in messages %}{% if message.role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}"
            "{{ message.role }}: {{ message.content }}\n{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}")
TEXTS = ("Grüße, 世界 👋🏽 von der Lagune", "plain", "a\u0301 e\u0301", "日本語テキスト👨‍👩‍👧")


@pytest.fixture(scope="module", name="folder")
def fixture_folder(tmp_path_factory):
    """The tokenizer's files, as a repository of a model has them."""
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator([*TEXTS, "user: hello assistant: hello"], trainers.BpeTrainer(
        vocab_size=VOCABULARY, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=[END]))
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": END, "chat_template": TEMPLATE}))
    return folder


@pytest.fixture(scope="module", name="tokenizer")
def fixture_tokenizer(folder):
    return Tokenizer(folder)


@pytest.fixture(scope="module", name="tiny")
def fixture_tiny():
    return TinyModel(VOCABULARY, LENGTH)


def command(*words):
    """Words and environment of the front."""
    paths = os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
    return [sys.executable, "-m", "lagoon.openai", *map(str, words)], {**os.environ, "PYTHONPATH": paths}


class Front:
    """A running front. Keeps its log."""

    def __init__(self, server_url, folder, *models):
        self.folder = tempfile.TemporaryDirectory(prefix="lagoon-openai-")
        ports = pathlib.Path(self.folder.name) / "ports.json"
        self.log_file = pathlib.Path(self.folder.name) / "log"
        words, environment = command("--server", server_url, "--port", "0", "--ports-file", ports,
                                     *(word for model in models for word in ("--model", f"{model}={folder}")))
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(words, env=environment, stdout=log, stderr=subprocess.STDOUT)
        until = time.monotonic() + 60
        while not ports.exists():
            assert self.process.poll() is None and time.monotonic() < until, self.log()
            time.sleep(0.02)
        self.port = json.loads(ports.read_text())["openai"]

    def log(self):
        return self.log_file.read_text(errors="replace")

    def open(self, path, body=None, method=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        connection.request(method or ("GET" if body is None else "POST"), path, body)
        return connection, connection.getresponse()

    def ask(self, path, body=None, method=None):
        """(status, JSON)"""
        connection, reply = self.open(path, body, method)
        with contextlib.closing(connection):
            return reply.status, json.loads(reply.read())

    def stream(self, path, body):
        """The events of an answer."""
        connection, reply = self.open(path, {**body, "stream": True})
        with contextlib.closing(connection):
            assert reply.status == 200, reply.read()
            assert reply.getheader("Content-Type").startswith("text/event-stream")
            events = reply.read().decode().split("\n\n")
        assert events.pop() == "" and events.pop() == "data: [DONE]"
        return [json.loads(event.removeprefix("data: ")) for event in events]

    def close(self):
        self.process.terminate()
        assert self.process.wait(60) == 0
        self.folder.cleanup()


@pytest.fixture(scope="module", name="server")
def fixture_server(lagoon, tiny, tmp_path_factory):
    repository = tmp_path_factory.mktemp("repository")
    library = pathlib.Path(lagoon.binary).parent.parent / "examples" / "jobs" / "job_chat.so"
    add_chat(repository, "chat", library, tiny, ROWS)
    add_chat(repository, "long", library, TinyModel(VOCABULARY, 1024), ROWS)
    with serving(lagoon, repository, "--workers", "2") as running:
        yield running


@pytest.fixture(scope="module", name="front")
def fixture_front(server, folder):
    front = Front(server.url("grpc"), folder, "chat", "gone", "chat_decode", "long")
    yield front
    front.close()


def expected(tiny, tokenizer, prompt, most):
    """The text and the number of tokens that the model continues the prompt's tokens with."""
    ids = [token for token in tiny.generate(prompt, most) if token != -1]
    for index, token in enumerate(ids):
        if token in tokenizer.stop_tokens:
            return tokenizer.decode(ids[:index]), index + 1
    return tokenizer.decode(ids), len(ids)


# ---- Texts that grow


@pytest.mark.parametrize("text", TEXTS)
def test_no_piece_has_half_a_character(tokenizer, text):
    growing = GrowingText(tokenizer)
    pieces = [growing.add(token) for token in tokenizer.encode(text)] + [growing.finish()]
    assert "".join(pieces) == text
    assert not any("\ufffd" in piece for piece in pieces)


def test_bytes_that_are_no_character_come_as_the_tokenizer_writes_them(tokenizer):
    ids = [token for seed in range(200) for token in ((seed * 37) % VOCABULARY, (seed * 91 + 5) % VOCABULARY)]
    growing = GrowingText(tokenizer)
    assert "".join([growing.add(token) for token in ids] + [growing.finish()]) == tokenizer.decode(ids)


@pytest.mark.parametrize("stops, text", (
    (["世"], "Grüße, "), (["der", "von"], "Grüße, 世界 👋🏽 "), (["nothing", "Lagunen"], TEXTS[0]),
))
def test_a_stop_string_cuts_the_text_wherever_its_tokens_end(tokenizer, stops, text):
    growing = GrowingText(tokenizer, stops)
    pieces = [growing.add(token) for token in tokenizer.encode(TEXTS[0])] + [growing.finish()]
    assert "".join(pieces) == text
    assert growing.stopped == (text != TEXTS[0])


# ---- Requests

CHAT = {"model": "chat", "messages": [{"role": "user", "content": "hello"}]}


@pytest.mark.parametrize("change, param", (
    ({"model": 1}, "model"), ({"messages": []}, "messages"), ({"messages": "hello"}, "messages"),
    ({"messages": [{"role": "user"}]}, "messages[0]"), ({"messages": [7]}, "messages[0]"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0]"),
    ({"messages": [{"role": "user", "content": "\ud800"}]}, "messages[0]"),
    ({"max_tokens": 0}, "max_tokens"), ({"max_tokens": 1.5}, "max_tokens"), ({"max_tokens": 10 ** 400}, "max_tokens"),
    ({"temperature": -1}, "temperature"), ({"temperature": True}, "temperature"), ({"top_p": "x"}, "top_p"),
    ({"seed": 2 ** 63}, "seed"), ({"stop": [""]}, "stop"), ({"stop": ["x"] * 9}, "stop"), ({"stream": 1}, "stream"),
    ({"n": 2}, "n"), ({"n": True}, "n"), ({"tools": [{}]}, "tools"), ({"logprobs": True}, "logprobs"),
    ({"priority": -1}, "priority"), ({"stream_options": 3}, "stream_options"),
))
def test_a_field_that_it_does_not_take_is_named(change, param):
    with pytest.raises(ApiError) as error:
        parse(json.dumps({**CHAT, **change}), chat=True)
    assert (error.value.status, error.value.param) == (400, param)


@pytest.mark.parametrize("text", ("", "{", "[]", "7", '{"a": NaN}', "[" * 100_000, '{"model": "chat"', b"\xff\xfe{}"))
def test_what_is_no_json_is_refused(text):
    with pytest.raises(ApiError) as error:
        parse(text, chat=True)
    assert error.value.status == 400


def test_fields_with_their_defaults_mean_nothing():
    request = parse(json.dumps({**CHAT, "n": 1, "presence_penalty": 0.0, "logprobs": False, "tools": [], "user": "me",
                                "response_format": {"type": "text"}, "stop": None}), chat=True)
    assert request.temperature == 1 and request.stop == []


# ---- End to end


def test_a_chat_is_completed(front, tiny, tokenizer):
    status, answer = front.ask("/v1/chat/completions", {**CHAT, "temperature": 0, "max_tokens": 12})
    assert status == 200, answer
    prompt = tokenizer.encode("user: hello\nassistant:")
    text, count = expected(tiny, tokenizer, prompt, 12)
    (choice,) = answer["choices"]
    assert choice["message"] == {"role": "assistant", "content": text}
    assert answer["object"] == "chat.completion" and answer["model"] == "chat"
    assert answer["usage"] == {"prompt_tokens": len(prompt), "completion_tokens": count,
                               "total_tokens": len(prompt) + count}
    assert choice["finish_reason"] in ("length", "stop")


def test_a_stream_gives_the_same_text_in_pieces(front):
    body = {**CHAT, "seed": 5, "max_tokens": 30, "stream_options": {"include_usage": True}}
    _, whole = front.ask("/v1/chat/completions", body)
    *chunks, last, usage = front.stream("/v1/chat/completions", body)
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    text = "".join(chunk["choices"][0]["delta"]["content"] for chunk in chunks)
    assert text == whole["choices"][0]["message"]["content"]
    assert last["choices"][0]["finish_reason"] == whole["choices"][0]["finish_reason"]
    assert usage["choices"] == [] and usage["usage"] == whole["usage"]
    assert len({chunk["id"] for chunk in chunks}) == 1


@pytest.mark.parametrize("as_tokens", (False, True))
def test_a_text_is_completed(front, tiny, tokenizer, as_tokens):
    prompt = tokenizer.encode("Grüße")
    body = {"model": "chat", "prompt": prompt if as_tokens else "Grüße", "temperature": 0, "max_tokens": 9}
    status, answer = front.ask("/v1/completions", body)
    assert status == 200, answer
    text, _ = expected(tiny, tokenizer, prompt, 9)
    assert answer["choices"][0]["text"] == text
    assert "".join(event["choices"][0]["text"] for event in front.stream("/v1/completions", body)) == text


def test_a_stop_string_ends_the_text(front):
    body = {"model": "chat", "prompt": "Grüße", "seed": 11, "max_tokens": 40}
    _, whole = front.ask("/v1/completions", body)
    text = whole["choices"][0]["text"]
    stop = text[3:5]
    _, answer = front.ask("/v1/completions", {**body, "stop": [stop]})
    assert answer["choices"][0]["text"] == text[:text.index(stop)]
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"]["completion_tokens"] <= whole["usage"]["completion_tokens"]


def test_without_a_limit_the_context_ends_the_text(front, tokenizer):
    prompt = tokenizer.encode("plain")
    _, answer = front.ask("/v1/completions", {"model": "chat", "prompt": "plain", "temperature": 0})
    assert answer["choices"][0]["finish_reason"] in ("length", "stop")
    assert answer["usage"]["completion_tokens"] <= LENGTH - len(prompt) + 1


def test_models_that_are_ready_are_listed(front):
    status, answer = front.ask("/v1/models")
    assert status == 200
    assert [model["id"] for model in answer["data"]] == ["chat", "chat_decode", "long"]
    assert front.ask("/v1/models/chat")[1]["object"] == "model"


@pytest.mark.parametrize("path, body, status, code, says", (
    ("/v1/completions", {"model": "nobody", "prompt": "a"}, 404, "model_not_found", "'nobody'"),
    ("/v1/completions", {"model": "gone", "prompt": "a"}, 404, "model_not_found", "gone"),
    ("/v1/completions", {"model": "chat_decode", "prompt": "a"}, 501, None, "does not generate text"),
    ("/v1/completions", {"model": "chat", "prompt": ""}, 400, None, "empty"),
    ("/v1/completions", {"model": "chat", "prompt": "x" * 500}, 400, "context_length_exceeded", str(LENGTH)),
    ("/v1/completions", {"model": "chat", "prompt": [299, 10 ** 6]}, 400, None, "vocabulary"),
    ("/v1/chat/completions", {"model": "chat", "messages": [{"role": "tool", "content": "x"}]}, 400, None, "no tools"),
    ("/v1/chat/completions", "x" * (1 << 21), 413, None, "Too Large"),
    ("/v1/nothing", {}, 404, None, "/v1/nothing"),
    ("/v1/models", {}, 405, None, "/v1/models"),
))
def test_errors_have_the_form_of_openai(front, path, body, status, code, says):
    answered, answer = front.ask(path, body)
    assert answered == status, answer
    error = answer["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["code"] == code and says in error["message"]


def test_a_client_that_leaves_ends_its_request(front, server):
    def failed():
        statistics = server.http().get_inference_statistics("long")["model_stats"][0]
        return statistics["inference_stats"]["fail"]["count"]
    before = failed()
    for seed in range(5 * ROWS):
        body = {"model": "long", "prompt": "a", "stream": True, "seed": seed}
        connection, reply = front.open("/v1/completions", body)
        reply.read(20)
        reply.close()
        connection.close()
    until = time.monotonic() + 60
    while failed() == before:
        assert time.monotonic() < until
    assert "Traceback" not in front.log()
    assert front.ask("/v1/completions", {"model": "long", "prompt": "a", "max_tokens": 2})[0] == 200


@pytest.mark.parametrize("coding", ("gzip", "deflate", "br", "zstd"))
def test_a_body_that_is_not_compressed_as_it_says_is_refused(front, coding):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", front.port, timeout=60)) as connection:
        connection.request("POST", "/v1/completions", b'{"model": "chat"}', {"Content-Encoding": coding})
        assert connection.getresponse().status == 400


def test_clients_that_send_half_a_body_take_no_place_from_others(front):
    head = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\n{"
    with contextlib.ExitStack() as halves:
        clients = [halves.enter_context(socket.create_connection(("127.0.0.1", front.port), 60)) for _ in range(300)]
        for client in clients:
            client.sendall(head)
        status, answer = front.ask("/v1/completions", {"model": "chat", "prompt": "a", "max_tokens": 2})
        assert status == 200, answer
        assert clients[0].recv(100).startswith(b"HTTP/1.1 408 ")


def test_many_clients_get_the_texts_that_each_gets_alone(front):
    bodies = [{"model": "chat", "prompt": TEXTS[seed % len(TEXTS)][:6], "seed": seed, "max_tokens": 10}
              for seed in range(24)]
    def ask(body):
        return front.ask("/v1/completions", body)[1]["choices"][0]["text"]
    alone = [ask(body) for body in bodies]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, bodies)) == alone


def test_the_list_of_models_says_that_the_server_is_away(folder):
    front = Front("127.0.0.1:1", folder, "chat")
    try:
        status, answer = front.ask("/v1/models")
        assert status == 503 and "127.0.0.1:1" in answer["error"]["message"]
    finally:
        front.close()


def without(folder, name, text=None):
    """A copy of the folder without a file, or with another one in its place."""
    copy = pathlib.Path(tempfile.mkdtemp(prefix="lagoon-openai-"))
    for file in folder.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    (copy / name).unlink() if text is None else (copy / name).write_text(text)
    return copy


def test_a_template_may_break_loops_and_ask_for_the_date(folder, tokenizer):
    template = ("{% for message in messages %}{% if loop.index > 1 %}{% break %}{% endif %}{{ message.content }}"
                "{% endfor %} {{ strftime_now('%Y') }}")
    messages = [{"role": "user", "content": content} for content in ("first", "second")]
    years = [time.strftime("%Y")]
    tokens = Tokenizer(without(folder, "chat_template.jinja", template)).encode_chat(messages)
    years.append(time.strftime("%Y"))
    assert tokens in [tokenizer.encode(f"first {year}") for year in years]


@pytest.mark.parametrize("change, says", (
    (("tokenizer.json", None), "there is no file"), (("tokenizer.json", "{"), "is no tokenizer"),
    (("tokenizer_config.json", "{"), "is no JSON"), (("tokenizer_config.json", "[]"), "has no JSON object"),
    (("chat_template.jinja", "{% for %}"), "the chat template"),
    (("tokenizer_config.json", '{"chat_template": [{"name": "default"}]}'), "the chat template"),
    (("generation_config.json", '{"eos_token_id": "x"}'), "eos_token_id"),
))
def test_a_folder_that_cannot_be_used_is_said_in_a_line(folder, change, says):
    copy = without(folder, *change)
    error = failure("--model", f"chat={copy}")
    assert says in error and str(copy) in error


def failure(*words):
    """The line that the front ends with."""
    line, environment = command(*words)
    ended = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1 and ended.stderr.count("\n") == 1, ended.stderr
    return ended.stderr


@pytest.mark.parametrize("models, says", (
    (("chat",), "NAME=FOLDER"), (("={0}",), "NAME=FOLDER"), (("chat=",), "NAME=FOLDER"),
    (("chat={0}", "chat={0}"), "two folders for model 'chat'"),
))
def test_words_that_name_no_model_are_said_in_a_line(folder, models, says):
    assert says in failure(*(word for model in models for word in ("--model", model.format(folder))))


def test_a_port_in_use_is_said_in_a_line(front, folder):
    error = failure("--model", f"chat={folder}", "--port", front.port)
    assert f"127.0.0.1:{front.port}" in error and "--port" in error


def test_a_priority_goes_to_the_server(front):
    for priority in (0, 1, 9):
        assert front.ask("/v1/completions", {"model": "chat", "prompt": "a", "max_tokens": 2,
                                             "priority": priority})[0] == 200


class NoStreams(service_pb2_grpc.GRPCInferenceServiceServicer):
    """The front of a fleet of servers, as far as a decoupled model sees it."""

    def ModelReady(self, request, context):
        context.abort(grpc.StatusCode.UNIMPLEMENTED, f"model '{request.name}' is decoupled")


def test_a_front_of_servers_is_refused_at_the_start(folder):
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(1))
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(NoStreams(), server)
    url = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    words, environment = command("--server", url, "--port", "0", "--model", f"tiny={folder}")
    ended = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=False)
    server.stop(0)
    assert ended.returncode == 1
    assert f"--server {url}: model 'tiny' is decoupled" in ended.stderr
