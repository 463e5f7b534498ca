"""Prompts that the job program examples/jobs/chat.cc reads in chunks: the texts are those of ONNX Runtime."""

import dataclasses
import pathlib
import time

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from corpus import genai
from server_process import serving
from text_stream import Reference, Stream
from tiny_model import TinyModel, add_chat, add_model, add_program, chat_config, decoder_config, parameter

SMALL = genai.SHAPES["small"]
LONG = dataclasses.replace(SMALL, hidden=512, inner=1024, positions=1152)
ROOM, ROWS = SMALL.positions, 3
CHUNKS = (5, 16, ROOM)
ROLE = "lagoon.model.prefill"


def add_texts(repository, library, name, chunks, config="", positions=False, rows=ROWS, shape=SMALL, urgent=""):
    """The program `name` over decoders of its own, with a model for chunks of each of these sizes."""
    model, room = genai.decoder(shape, 0, positions=positions), shape.positions
    add_model(repository, f"{name}_decode", model, decoder_config(room, rows, 1, urgent))
    for i, (role, chunk) in enumerate(zip((ROLE, f"{ROLE}_2", f"{ROLE}_3"), chunks)):
        add_model(repository, f"{name}_read{i}", model, decoder_config(room, 1, chunk, urgent))
        config += parameter(role, f"{name}_read{i}")
    add_program(repository, name, library, chat_config(name, room, prefill=False) + config + urgent)


@pytest.fixture(scope="module", name="library")
def fixture_library(lagoon):
    return pathlib.Path(lagoon.binary).parent.parent / "examples" / "jobs" / "job_chat.so"


@pytest.fixture(scope="module", name="server")
def fixture_server(lagoon, library, tmp_path_factory):
    repository = tmp_path_factory.mktemp("repository")
    for chunk in CHUNKS:
        add_texts(repository, library, f"by{chunk}", [chunk])
    add_texts(repository, library, "placed", [7], positions=True)
    add_texts(repository, library, "choice", [8, 2, 24], parameter("job.chunk_ms", 60_000))
    with serving(lagoon, repository, "--workers", "2") as running:
        yield running


@pytest.fixture(scope="module", name="reference")
def fixture_reference(tmp_path_factory):
    return Reference(genai.decoder(SMALL, 0), tmp_path_factory.mktemp("reference") / "model.onnx", SMALL)


def prompt_of(length, seed=0):
    return [int(token) for token in np.random.default_rng(100 * length + seed).integers(0, SMALL.vocabulary, length)]


def text(stream, model, prompt, most):
    stream.ask(prompt, "", model, most=most, context=ROOM)
    return stream.tokens()[""]


def runs(server, model):
    return server.http().get_inference_statistics(model)["model_stats"][0]["execution_count"]


@pytest.mark.parametrize("chunk", CHUNKS)
def test_chunks_give_the_texts_of_whole_prompts(server, reference, chunk):
    """Prompts shorter than a chunk, of whole chunks, with a ragged last one, and as long as the cache."""
    lengths = {1, chunk - 1, chunk, chunk + 1, 2 * chunk - 1, 3 * chunk + 2, ROOM - 1, ROOM}
    with Stream(server) as stream:
        for length in sorted(length for length in lengths if length <= ROOM):
            most = min(4, ROOM - length + 1)
            prompt = prompt_of(length)
            expected = reference.generate(prompt, most)
            assert text(stream, f"by{chunk}", prompt, most) == expected, f"{length} tokens"


def test_a_prompt_of_whole_chunks_takes_as_many_runs(server):
    before = runs(server, "by16_read0"), runs(server, "by16_decode")
    with Stream(server) as stream:
        assert len(text(stream, "by16", prompt_of(48), 5)) == 5
    # The first token comes from the last chunk.
    assert (runs(server, "by16_read0"), runs(server, "by16_decode")) == (before[0] + 3, before[1] + 4)


def test_a_prompt_longer_than_the_cache_is_refused(server):
    with Stream(server) as stream:
        stream.ask(prompt_of(ROOM + 1), "", "by16", context=ROOM + 1)
        with pytest.raises(InferenceServerException, match=str(ROOM)):
            stream.next()
        assert len(text(stream, "by16", prompt_of(20), 2)) == 2


def test_positions_are_an_input_of_chunks_too(server, tmp_path):
    reference = Reference(genai.decoder(SMALL, 0, positions=True), tmp_path / "model.onnx", SMALL)
    with Stream(server) as stream:
        for length in (3, 7, 8, 30, 50):
            prompt = prompt_of(length)
            assert text(stream, "placed", prompt, 4) == reference.generate(prompt, 4), f"{length} tokens"


def test_prompts_that_are_read_together_take_turns(server, reference):
    """More prompts than rows; the shorter ones pass the longer ones, whose caches move."""
    lengths = (60, 41, 33, 57, 12, 5, 29, 60, 3, 18, 45, 26)
    prompts = {str(i): prompt_of(length, i) for i, length in enumerate(lengths)}
    with Stream(server) as stream:
        for name, prompt in prompts.items():
            stream.ask(prompt, name, "by5", most=4, context=ROOM)
        tokens = stream.tokens(len(prompts))
    assert tokens == {name: reference.generate(prompt, 4) for name, prompt in prompts.items()}


def test_a_prompt_takes_turns_with_the_texts_and_joins_them(lagoon, library, tmp_path):
    """Not at their end: the scheduler alone would run what has the least left, as far as it has seen texts."""
    repository = tmp_path / "models"
    add_texts(repository, library, "long", [128], shape=LONG, urgent="optimization { priority: PRIORITY_MAX }\n")
    with serving(lagoon, repository, "--scheduler", "lagoon", "--workers", "1") as server, Stream(server) as stream:
        stream.ask(prompt_of(8), "", "long", most=600, context=LONG.positions)
        stream.tokens()
        before = runs(server, "long_decode")
        stream.ask(prompt_of(8), "text", "long", most=600, context=LONG.positions)
        stream.ask(prompt_of(512), "prompt", "long", most=590, context=LONG.positions)
        tokens = stream.tokens(2)
        made = runs(server, "long_decode") - before
    assert [len(tokens["text"]), len(tokens["prompt"])] == [600, 590]
    # The first tokens come from chunks. The text has a token for each of the other's 4 chunks, and then both are in
    # each run, unless a client is late.
    assert 599 <= made < 599 + 50


def test_a_client_that_leaves_while_its_prompt_is_read_frees_its_place(server, reference):
    kept = prompt_of(44)
    expected = reference.generate(kept, 3)
    for i in range(12):
        with Stream(server) as other:
            streams = [Stream(server) for _ in range(3)]
            for stream in streams:
                stream.ask(prompt_of(60 - i), "", "by5", most=4, context=ROOM)
            other.ask(kept, "", "by5", most=3, context=ROOM)
            time.sleep(0.001 * i)  # so that they leave in different chunks
            for stream in streams:
                stream.client.stop_stream(cancel_requests=True)
                stream.client.close()
            assert other.tokens()[""] == expected


def test_the_largest_chunk_that_takes_the_stated_time_is_chosen(server, reference):
    before = [runs(server, f"choice_read{i}") for i in range(3)]
    with Stream(server) as stream:
        prompt = prompt_of(48)
        assert text(stream, "choice", prompt, 3) == reference.generate(prompt, 3)
    assert [runs(server, f"choice_read{i}") - before[i] for i in range(3)] == [0, 0, 2]


def test_what_a_program_cannot_read_by_is_said(lagoon, library, tmp_path):
    repository = tmp_path / "models"
    add_chat(repository, "whole", library, TinyModel(SMALL.vocabulary, ROOM), ROWS)
    add_model(repository, "short", genai.decoder(SMALL, 0), decoder_config(ROOM // 2, 1, 8))
    bad = {"zero": (parameter("job.chunk_ms", 0), "'job.chunk_ms' is '0', it takes 1 to 60000"),
           "word": (parameter("job.chunk_ms", "soon"), "'job.chunk_ms' is 'soon'"),
           "both": (parameter(f"{ROLE}_2", "whole_prefill"), "'prefill_2' has 2 inputs and 3 outputs, expected 5"),
           "rest": (parameter(f"{ROLE}_2", "whole_decode"), "'prefill_2' has 5 inputs and 3 outputs; it reads whole"),
           "room": (parameter(f"{ROLE}_3", "short"), "'attention_mask' is [1, 32], expected [1, 64]")}
    for name, (config, _) in bad.items():
        add_texts(repository, library, name, [8], config)
    with serving(lagoon, repository) as server:
        states = {model["name"]: model["state"] for model in server.http().get_model_repository_index()}
        log = server.log()
    for name, (_, says) in bad.items():
        line = next((line for line in log.splitlines() if f"'{name}' version 1: not served" in line), log)
        assert states[name] == "UNAVAILABLE" and says in line, line
    assert states["whole"] == "READY"
