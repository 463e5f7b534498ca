"""The caches of the job program examples/jobs/chat.cc: memory for the tokens in use, and their limit."""

import dataclasses
import pathlib
import re

import pytest
from tritonclient.utils import InferenceServerException

from corpus import genai
from server_process import serving
from text_stream import Reference, Stream
from tiny_model import add_model, add_program, chat_config, decoder_config, parameter

ROOM, ROWS, CHUNK = 8192, 8, 64
SHAPE = dataclasses.replace(genai.SHAPES["small"], positions=ROOM, hidden=256)
CACHES = 2 * SHAPE.layers
ROW_MIB = CACHES * SHAPE.key_heads * SHAPE.head * 4 * ROOM / 2**20  # of one text that fills its caches
TOKEN_KIB = ROW_MIB * 1024 / ROOM


@pytest.fixture(scope="module", name="repository")
def fixture_repository(lagoon, tmp_path_factory):
    """`chat` has room for all rows; `small` for 600 tokens of all texts together."""
    repository = tmp_path_factory.mktemp("repository")
    library = pathlib.Path(lagoon.binary).parent.parent / "examples" / "jobs" / "job_chat.so"
    model = genai.decoder(SHAPE, 0)
    for name, config in (("chat", ""), ("small", parameter("job.cache_tokens", 600))):
        add_model(repository, f"{name}_decode", model, decoder_config(ROOM, ROWS, 1))
        add_model(repository, f"{name}_read", model, decoder_config(ROOM, 1, CHUNK))
        config += parameter("lagoon.model.prefill", f"{name}_read")
        add_program(repository, name, library, chat_config(name, ROOM, prefill=False) + config)
    return repository


@pytest.fixture(scope="module", name="server")
def fixture_server(lagoon, repository):
    with serving(lagoon, repository, "--workers", "2") as running:
        yield running


def memory(server):
    """Private memory of the server, in MiB."""
    text = pathlib.Path(f"/proc/{server.process.pid}/smaps_rollup").read_text()
    return int(re.search(r"^Anonymous: *(\d+) kB", text, re.MULTILINE)[1]) / 1024


def prompt_of(length):
    return [(7 * i) % SHAPE.vocabulary for i in range(length)]


def test_caches_take_memory_for_the_tokens_in_use(server):
    with Stream(server) as stream:  # what is allocated once
        stream.ask(prompt_of(2 * CHUNK), model="chat", most=2, context=ROOM)
        stream.tokens()
    before = memory(server)
    # Two programs have room for 18 rows, and their models' own instances for as many.
    assert before < 18 * ROW_MIB, f"{before:.0f} MiB; a full row has {ROW_MIB:.0f}"
    with Stream(server) as stream:
        for i in range(3):
            stream.ask(prompt_of(1500), str(i), model="chat", most=5000, context=ROOM)
        ids = set()
        while len(ids) < 3:
            ids.add(stream.next().get_response().id)
        used = memory(server) - before
    assert used > 3 * 1500 * TOKEN_KIB / 1024 * 0.9, f"{used:.1f} MiB"
    assert used < 3 * ROW_MIB, f"{used:.1f} MiB"
    with Stream(server) as stream:  # the rows of the clients that left are given back
        for _ in range(3):
            stream.ask(prompt_of(3), model="chat", most=3, context=ROOM)
            stream.tokens()
    after = memory(server) - before
    assert after < used / 2, f"{used:.1f} MiB in use, then {after:.1f}"


def test_texts_that_do_not_fit_wait_in_their_order(server, tmp_path):
    """300 tokens of the first and 400 of the second exceed 600; the third would fit beside the first."""
    reference = Reference(genai.decoder(SHAPE, 0), tmp_path / "model.onnx", SHAPE)
    lengths = {"first": (280, 20), "second": (390, 10), "third": (20, 5)}
    with Stream(server) as stream:
        for name, (length, most) in lengths.items():
            stream.ask(prompt_of(length), name, model="small", most=most, context=ROOM)
        order, tokens = [], {name: [] for name in lengths}
        while len(order) < 3:
            answer = stream.next().get_response()
            if answer.parameters["triton_final_response"].bool_param:
                order.append(answer.id)
            else:
                assert order[:1] == ["first"] or answer.id == "first"
                tokens[answer.id].append(int.from_bytes(answer.raw_output_contents[0], "little"))
    assert set(order) == set(lengths)
    for name, (length, most) in lengths.items():
        assert tokens[name] == reference.generate(prompt_of(length), most), name


def test_a_text_ends_where_the_room_ends(server):
    with Stream(server) as stream:
        stream.ask(prompt_of(590), model="small", most=1000, context=ROOM)
        assert len(stream.tokens()[""]) == 11  # one behind each of the 590th to the 600th token
        stream.ask(prompt_of(601), model="small", most=1, context=ROOM)
        with pytest.raises(InferenceServerException, match="has 601 tokens, the model takes 1 to 600"):
            stream.next()


def test_a_limit_that_is_none_is_refused(lagoon, repository, tmp_path):
    library = repository / "chat" / "1" / "job.so"
    (tmp_path / "models").mkdir()
    model = genai.decoder(genai.SHAPES["small"], 0)
    for name, limit in (("zero", 0), ("more", 64 * 3 + 1), ("word", "all")):
        add_model(tmp_path / "models", f"{name}_decode", model, decoder_config(64, 3, 1))
        config = chat_config(name, 64, prefill=False) + parameter("job.cache_tokens", limit)
        add_program(tmp_path / "models", name, library, config)
    with serving(lagoon, tmp_path / "models") as server:
        states = {model["name"]: model["state"] for model in server.http().get_model_repository_index()}
        log = server.log()
    for name, limit in (("zero", 0), ("more", 193), ("word", "all")):
        assert states[name] == "UNAVAILABLE"
        assert f"'job.cache_tokens' is '{limit}', it takes 1 to 192" in log
