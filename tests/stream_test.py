"""Streams of answers end to end with Triton's client: ordinary models over ModelStreamInfer, and a job program that
sends each token as an answer of its own."""

import dataclasses
import pathlib
import threading
import time

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from conftest import DIGITS
from corpus import genai
from server_process import serving, triton_input
from text_stream import Reference, Stream, chat_inputs
from tiny_model import TinyModel, add_chat, add_model, add_program, chat_config, decoder_config

VOCABULARY, LENGTH, ROWS = 32, 24, 3
SMALL = genai.SHAPES["small"]


@pytest.fixture(scope="module", name="tiny")
def fixture_tiny():
    return TinyModel(VOCABULARY, LENGTH)


@pytest.fixture(scope="module", name="server")
def fixture_server(lagoon, tiny, tmp_path_factory):
    repository = tmp_path_factory.mktemp("repository")
    (repository / "digits").symlink_to(DIGITS)
    library = pathlib.Path(lagoon.binary).parent.parent / "examples" / "jobs" / "job_chat.so"
    add_chat(repository, "chat", library, tiny, ROWS)
    add_chat(repository, "buffer", library, tiny, ROWS, in_place=True)
    add_program(repository, "small", library, chat_config("small", SMALL.positions, prefill=False))
    add_model(repository, "small_decode", genai.decoder(SMALL, 0), decoder_config(SMALL.positions, ROWS, 1))
    with serving(lagoon, repository, "--workers", "2") as running:
        yield running


def without_end(tokens):
    return [token for token in tokens if token != -1]


def test_an_ordinary_model_answers_on_a_stream(server):
    image = np.random.default_rng(3).random((1, 1, 8, 8), np.float32)
    inputs = [triton_input(triton_grpc, "image", image)]
    expected = server.grpc().infer("digits", inputs).as_numpy("scores")
    with Stream(server) as stream:
        for number in range(100):
            stream.client.async_stream_infer("digits", inputs, request_id=str(number))
        stream.client.async_stream_infer("nothing", inputs, request_id="bad")
        ids, errors = set(), []
        for _ in range(101):
            try:
                answer = stream.next()
                np.testing.assert_array_equal(answer.as_numpy("scores"), expected)
                ids.add(answer.get_response().id)
            except InferenceServerException as error:
                errors.append(error.message())
    assert ids == {str(number) for number in range(100)}
    assert len(errors) == 1 and "nothing" in errors[0]


@pytest.mark.parametrize("model", ("chat", "buffer"))
@pytest.mark.parametrize("length", (1, 5, LENGTH))
def test_each_token_is_an_answer(server, tiny, model, length):
    prompt = np.random.default_rng(length).integers(0, VOCABULARY, length)
    with Stream(server) as stream:
        stream.ask(prompt, "a", model, most=50)
        assert stream.tokens() == {"a": without_end(tiny.generate(prompt, 50))}


@pytest.mark.parametrize("model", ("chat", "buffer"))
def test_requests_decode_together_and_each_gets_its_own_text(server, tiny, model):
    prompts = {str(seed): np.random.default_rng(seed).integers(0, VOCABULARY, 1 + seed % 9) for seed in range(14)}
    with Stream(server) as stream:
        for name, prompt in prompts.items():
            stream.ask(prompt, name, model, most=6)
        tokens = stream.tokens(len(prompts))
    assert tokens == {name: without_end(tiny.generate(prompt, 6)) for name, prompt in prompts.items()}


def test_a_decoder_of_4_bits_gives_the_texts_of_onnxruntime(server, tmp_path):
    """In onnxruntime-genai's form, three texts at a time."""
    reference = Reference(genai.decoder(SMALL, 0), tmp_path / "model.onnx", SMALL)
    prompts = {str(seed): np.random.default_rng(seed).integers(0, SMALL.vocabulary, 2 + seed) for seed in range(5)}
    with Stream(server) as stream:
        for name, prompt in prompts.items():
            stream.ask(prompt, name, "small", most=12, context=SMALL.positions)
        tokens = stream.tokens(len(prompts))
    assert tokens == {name: reference.generate(prompt, 12) for name, prompt in prompts.items()}


def test_the_runs_of_the_decoder_are_in_its_statistics(server):
    def runs():
        return server.http().get_inference_statistics("small_decode")["model_stats"][0]["execution_count"]
    before = runs()
    with Stream(server) as stream:
        stream.ask([1, 2, 3], "", "small", most=4, context=SMALL.positions)
        assert len(stream.tokens()[""]) == 4
    assert runs() == before + 6  # the first tokens of the prompt, and each new one but the last


def test_an_error_names_its_request(server):
    with Stream(server) as stream:
        stream.ask([], "mine")
        with pytest.raises(InferenceServerException, match="request 'mine': .*the prompt has 0 tokens"):
            stream.next()


def test_a_stop_token_ends_the_text(server, tiny):
    whole = tiny.generate([1, 2, 3], 8)
    with Stream(server) as stream:
        stream.ask([1, 2, 3], stop=[whole[2]])
        assert stream.tokens()[""] == whole[:whole.index(whole[2]) + 1]


def test_a_seed_gives_the_same_text_again(server):
    with Stream(server) as stream:
        texts = []
        for seed in (1, 1, 2, 3, 4):
            stream.ask([1, 2], seed=seed, most=20, temperature=1.5, top_p=0.9)
            texts.append(stream.tokens()[""])
    assert texts[0] == texts[1]
    assert len({tuple(text) for text in texts}) > 1


def test_a_narrow_top_p_gives_the_most_probable_token(server, tiny):
    with Stream(server) as stream:
        stream.ask([4, 2], temperature=1.0, top_p=1e-6)
        assert stream.tokens()[""] == without_end(tiny.generate([4, 2], 8))


@pytest.mark.parametrize("words, says", (
    ({"prompt": [1, 99]}, "prompt has token 99, the vocabulary 32"),
    ({"prompt": []}, f"the prompt has 0 tokens, the model takes 1 to {LENGTH}"),
    ({"prompt": [1], "most": 0}, "max_tokens is below 1"),
    ({"prompt": [1], "temperature": float("nan")}, "temperature is nan"),
    ({"prompt": [1], "top_p": 0.0}, "top_p 0"),
))
def test_what_it_does_not_take_is_said_in_the_stream(server, words, says):
    with Stream(server) as stream:
        stream.ask(**words)
        with pytest.raises(InferenceServerException, match=says):
            stream.next()


def test_a_client_that_leaves_frees_its_place(server, tiny):
    for _ in range(3 * ROWS):
        stream = Stream(server)
        stream.ask([1], most=10_000)
        stream.next()
        stream.client.stop_stream(cancel_requests=True)
        stream.client.close()
    with Stream(server) as stream:
        stream.ask([1, 2], most=4)
        assert stream.tokens()[""] == tiny.generate([1, 2], 4)


def test_a_place_that_a_client_leaves_begins_anew(lagoon, tmp_path):
    """Also in the middle of a run: the text of the next one is not that of the client that left."""
    shape = dataclasses.replace(SMALL, hidden=256, inner=512, positions=256)
    repository = tmp_path / "models"
    library = pathlib.Path(lagoon.binary).parent.parent / "examples" / "jobs" / "job_chat.so"
    add_program(repository, "texts", library, chat_config("texts", shape.positions, prefill=False))
    add_model(repository, "texts_decode", genai.decoder(shape, 0), decoder_config(shape.positions, 2, 1))
    expected = Reference(genai.decoder(shape, 0), tmp_path / "model.onnx", shape).generate([5, 6], 6)
    with serving(lagoon, repository, "--workers", "1") as server:
        for attempt in range(8):
            with Stream(server) as stays, Stream(server) as waits:
                leaves = Stream(server)
                stays.ask([1, 2, 3], "", "texts", most=200, context=shape.positions)
                leaves.ask(list(range(attempt, attempt + 20)), "", "texts", most=100, context=shape.positions)
                leaves.next()
                waits.ask([5, 6], "", "texts", most=6, context=shape.positions)
                time.sleep(0.02)  # so that it waits for a place
                leaves.client.stop_stream(cancel_requests=True)
                leaves.client.close()
                assert waits.tokens()[""] == expected, attempt
                stays.client.stop_stream(cancel_requests=True)


def test_a_decoupled_model_has_no_single_answer(server):
    with pytest.raises(InferenceServerException, match="decoupled"):
        server.grpc().infer("chat", chat_inputs([1]))
    inputs = [triton_http.InferInput("length", [1], "INT64")]
    inputs[0].set_data_from_numpy(np.array([1]))
    with pytest.raises(InferenceServerException, match="decoupled"):
        server.http().infer("chat", inputs)


def test_many_streams_at_a_time(server, tiny):
    expected = tiny.generate([7, 8], 10)
    wrong = []
    def ask():
        with Stream(server) as stream:
            for _ in range(5):
                stream.ask([7, 8], most=10)
                tokens = stream.tokens()[""]
                if tokens != expected:
                    wrong.append(tokens)
    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
