"""Job programs end to end: a language model that generates token by token, a program with a kernel of its own, and
libraries that cannot be served."""

import concurrent.futures
import pathlib
import subprocess

import numpy as np
import pytest
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from conftest import ROOT
from server_process import serving, triton_input
from tiny_model import TinyModel, add_model, add_program, parameter

VOCABULARY, LENGTH, TOKENS = 32, 12, 8


def generate_config(prefill="tiny_prefill", decode="tiny_decode"):
    return (f'input {{ name: "prompt" data_type: TYPE_INT64 dims: [ {LENGTH} ] }}\n'
            'input { name: "length" data_type: TYPE_INT64 dims: [ 1 ] }\n'
            f'output {{ name: "tokens" data_type: TYPE_INT64 dims: [ {TOKENS} ] }}\n'
            + parameter("lagoon.model.prefill", prefill) + parameter("lagoon.model.decode", decode))


SCALE_CONFIG = ('input { name: "x" data_type: TYPE_FP32 dims: [ 10000 ] }\n'
                'input { name: "steps" data_type: TYPE_INT64 dims: [ 1 ] }\n'
                'output { name: "y" data_type: TYPE_FP32 dims: [ 10000 ] }\n')


def warmup(inputs, count=0):
    """A request before the program is ready. inputs: (name, type, dims, file), without a file zeros."""
    text = "".join(
        f'inputs {{ key: "{name}" value {{ data_type: {kind} dims: [ {dims} ] '
        + (f'input_data_file: "{file}"' if file else "zero_data: true") + " } } "
        for name, kind, dims, file in inputs)
    return f'model_warmup [ {{ name: "w" count: {count} {text} }} ]\n'


X, STEPS = ("x", "TYPE_FP32", 10000, ""), ("steps", "TYPE_INT64", 1, "seven")

BAD_LIBRARIES = {
    "crashes": "__attribute__((constructor)) static void f() { *(volatile int*)0 = 1; }",
    "exits": "#include <stdlib.h>\n__attribute__((constructor)) static void f() { exit(0); }",
    "no_program": "int answer = 42;",
    "old": "unsigned lagoon_job_program_abi() { return 0; } void* lagoon_job_program_create() { return 0; }",
    "needs_more": "void missing(); void* lagoon_job_program_create() { missing(); return 0; }",
}
BAD_REASONS = {
    "crashes": "crashes when it is loaded: Segmentation fault",
    "exits": "exits with 0 when it is loaded",
    "no_program": "is no job program: it has no LAGOON_JOB_PROGRAM(...)",
    "old": "is for version 0 of sched/programs/job_program.h",
    "needs_more": "undefined symbol: missing",
    "not_there": "No such file or directory",
    "no_output": "declares no output of the job program",
    "batched": "max_batch_size is 4; a job program takes one request at a time: 0",
    "no_such_model": "parameter 'lagoon.model.decode': Request for unknown model: 'nobody' is not found",
    "no_pair": "no prefill and decode of one model",
    "itself": "is a job program itself",
    "hasty": "'tiny_decode' is best-effort, the job program real-time",
    "warm_size": "model_warmup 'w': input 'steps': has 8 bytes, its file 3",
    "warm_dims": "model_warmup 'w': input 'x': is TYPE_FP32 [5], the program takes TYPE_FP32 [10000]",
    "warm_missing": "model_warmup 'w': input 'x' is missing",
    "warm_unknown": "model_warmup 'w': input 'z' is not one of the program, which has 'x', 'steps'",
    "warm_fails": "model_warmup 'w': run 1 of 3",
    "loose": "a job program's tensors have a name, a type of numbers and positive dims",
}


@pytest.fixture(scope="module", name="programs")
def fixture_programs(lagoon):
    return pathlib.Path(lagoon.binary).parent.parent / "examples" / "jobs"


@pytest.fixture(scope="module", name="tiny")
def fixture_tiny():
    return TinyModel(VOCABULARY, LENGTH)


@pytest.fixture(scope="module", name="server")
def fixture_server(lagoon, programs, tiny, tmp_path_factory):
    repository = tmp_path_factory.mktemp("repository")
    add_model(repository, "tiny_prefill", tiny.graph(LENGTH))
    add_model(repository, "tiny_decode", tiny.graph(1))
    generate, scale = programs / "job_generate.so", programs / "job_scale_in_steps.so"
    add_program(repository, "generate", generate, generate_config())
    add_program(repository, "scale", scale, SCALE_CONFIG)
    sources = tmp_path_factory.mktemp("sources")
    for name, code in BAD_LIBRARIES.items():
        (sources / f"{name}.c").write_text(code)
        subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", sources / f"{name}.so", sources / f"{name}.c"],
                       check=True)
        add_program(repository, name, sources / f"{name}.so", SCALE_CONFIG)
    add_program(repository, "not_there", None, SCALE_CONFIG)
    add_program(repository, "no_output", scale, "")
    add_program(repository, "batched", scale, "max_batch_size: 4\n" + SCALE_CONFIG)
    add_program(repository, "no_such_model", generate, generate_config(decode="nobody"))
    add_program(repository, "no_pair", generate, generate_config(decode="tiny_prefill"))
    add_program(repository, "itself", generate, generate_config(prefill="scale"))
    add_program(repository, "hasty", generate, "optimization { priority: PRIORITY_MAX }\n" + generate_config())
    add_program(repository, "loose", scale, SCALE_CONFIG.replace("10000", "-1"))
    for name, inputs, steps in (("warm", (X, STEPS), b"\7" + bytes(7)),
                                ("warm_size", (X, STEPS), b"\7\0\0"),
                                ("warm_dims", (("x", "TYPE_FP32", 5, ""), STEPS), bytes(8)),
                                ("warm_missing", (STEPS,), bytes(8)),
                                ("warm_unknown", (X, STEPS, ("z", "TYPE_FP32", 1, "")), bytes(8)),
                                ("warm_fails", (X, STEPS), b"\xff" * 8)):
        add_program(repository, name, scale, SCALE_CONFIG + warmup(inputs))
        (repository / name / "warmup").mkdir()
        (repository / name / "warmup" / "seven").write_bytes(steps)
    with serving(lagoon, repository, "--workers", "2") as running:
        yield running


def ask_tokens(client, prompt):
    padded = np.zeros(LENGTH, np.int64)
    padded[:len(prompt)] = prompt
    inputs = [triton_input(triton_http, "prompt", padded, "INT64"),
              triton_input(triton_http, "length", np.array([len(prompt)]), "INT64")]
    return list(client.infer("generate", inputs).as_numpy("tokens"))


def ask_scaled(client, x, steps, **words):
    inputs = [triton_input(triton_http, "x", x), triton_input(triton_http, "steps", np.array([steps]), "INT64")]
    return client.infer("scale", inputs, **words).as_numpy("y")


@pytest.mark.parametrize("length", (1, 3, 7, LENGTH))
def test_generates_the_tokens_that_the_model_computed_anew_gives(server, tiny, length):
    prompt = np.random.default_rng(length).integers(0, VOCABULARY, length)
    assert ask_tokens(server.http(), prompt) == tiny.generate(prompt, TOKENS)


def test_clients_side_by_side_get_their_own_tokens(server, tiny):
    prompts = [np.random.default_rng(seed).integers(0, VOCABULARY, 1 + seed % 6) for seed in range(40)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:  # each call has its own client: it belongs to one thread
        answers = list(pool.map(lambda prompt: ask_tokens(server.http(), prompt), prompts))
    assert answers == [tiny.generate(prompt, TOKENS) for prompt in prompts]


def test_a_kernel_of_a_program_runs_as_often_as_it_says(server):
    x = np.random.default_rng(1).standard_normal(10000).astype(np.float32)
    for steps in (0, 1, 10):
        np.testing.assert_array_equal(ask_scaled(server.http(), x, steps), x * 2.0 ** steps)


def test_a_program_is_ready_after_its_own_requests(server):
    assert server.http().is_model_ready("warm")
    assert not any("'warm'" in line and "model_warmup" in line for line in server.log().splitlines())


def test_a_programs_error_is_the_answer(server):
    with pytest.raises(InferenceServerException, match="steps is 1001, it may be 0 to 1000") as error:
        ask_scaled(server.http(), np.ones(10000, np.float32), 1001)
    assert error.value.status() == "400"
    with pytest.raises(InferenceServerException, match="prompt has token 99, the vocabulary 32"):
        ask_tokens(server.http(), [1, 99])


def test_its_models_count_their_executions_and_it_its_own(server):
    client = server.http()
    def executions(model):
        statistics = client.get_inference_statistics(model)["model_stats"][0]
        return statistics["inference_stats"]["success"]["count"]
    before = executions("generate")
    ask_tokens(client, [1, 2, 3])
    assert executions("generate") == before + 1
    config = client.get_model_config("generate")
    assert config["backend"] == "lagoon_job"
    assert config["instance_group"][0]["count"] == 16


def test_a_request_that_is_too_slow_expires(server):
    with pytest.raises(InferenceServerException, match="timeout expired"):
        ask_scaled(server.http(), np.ones(10000, np.float32), 1000, timeout=200)


@pytest.mark.parametrize("name", BAD_REASONS)
def test_what_cannot_be_served_says_why_and_disturbs_nobody(server, name):
    client = server.http()
    assert not client.is_model_ready(name)
    with pytest.raises(InferenceServerException) as error:
        client.infer(name, [triton_input(triton_http, "x", np.ones(1, np.float32))])
    # The answer has only the name. The reason, which may have paths of the server, is in the log.
    assert f"model '{name}'" in str(error.value)
    assert any(f"'{name}'" in line and BAD_REASONS[name] in line for line in server.log().splitlines()), server.log()


def test_a_program_compiles_with_one_command(programs, tmp_path):
    """The command of docs/guide/jobs.md."""
    library = tmp_path / "job.so"
    subprocess.run(["c++", "-std=c++20", "-O2", "-fPIC", "-shared", "-I", ROOT / "src", "-o", library,
                    ROOT / "examples" / "jobs" / "scale_in_steps.cc"], check=True)
    symbols = subprocess.run(["nm", "-D", library], check=True, capture_output=True, text=True).stdout
    assert "T lagoon_job_program_create" in symbols
    assert programs.is_dir()
