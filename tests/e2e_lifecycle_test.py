"""How `lagoon serve` starts, refuses to start, and stops."""

import concurrent.futures
import json
import os
import pathlib
import re
import signal
import socket
import time

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from conftest import DIGITS, TOLERANCE, copy_model, relative_error
from server_process import ServerProcess, serving, triton_input

ANY_PORTS = ("--http-port", "0", "--grpc-port", "0", "--metrics-port", "0")


@pytest.fixture(name="digits_only")
def fixture_digits_only(tmp_path):
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "digits").symlink_to(DIGITS)
    return folder


def infer_digit(server, image, model="digits"):
    client = server.http()
    try:
        tensor = triton_input(triton_http, "image", image[None])
        return client.infer(model, [tensor]).as_numpy("scores")
    finally:
        client.close()


def expect_no_start(lagoon, *words):
    """Checks that `lagoon serve` exits with an error, not by a signal. Returns its stderr."""
    result = lagoon.run("serve", *words, timeout=60)
    assert 0 < result.returncode < 128, f"exit {result.returncode}\n{result.stderr}"
    return result.stderr


@pytest.mark.parametrize("protocol", ("http", "grpc", "metrics"))
def test_second_server_on_a_port_fails_and_the_first_goes_on(
        lagoon, digits_only, protocol, test_split, digit_scores):
    with serving(lagoon, digits_only) as server:
        ports = list(ANY_PORTS)
        ports[ports.index(f"--{protocol}-port") + 1] = str(server.ports[protocol])
        text = expect_no_start(lagoon, "--models", digits_only, "--address", "127.0.0.1", *ports)
        assert str(server.ports[protocol]) in text
        assert "in use" in text or "taken" in text
        assert relative_error(infer_digit(server, test_split[0][0]), digit_scores[:1]) <= TOLERANCE


def test_repository_that_is_not_there_is_named(lagoon, tmp_path):
    absent = tmp_path / "absent"
    assert str(absent) in expect_no_start(lagoon, "--models", absent, *ANY_PORTS)


def test_repository_that_is_a_file_is_named(lagoon, tmp_path):
    file = tmp_path / "file"
    file.write_text("not a folder")
    assert str(file) in expect_no_start(lagoon, "--models", file, *ANY_PORTS)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_repository_is_named(lagoon, tmp_path):
    folder = tmp_path / "closed"
    folder.mkdir(mode=0)
    assert str(folder) in expect_no_start(lagoon, "--models", folder, *ANY_PORTS)


@pytest.mark.parametrize("words, expected", [
    (("--scheduler", "magic"), ("magic", "reset")),
    (("--scheduler", "paella:dept=2"), ("no parameter 'dept'", "block_events, depth, extra_blocks")),
    (("--scheduler", "paella:depth=65"), ("depth = 65", "a whole number from 1 to 64")),
    (("--scheduler", "paella:depth=nan"), ("depth = nan", "from 1 to 64")),
    (("--scheduler", "paella:depth=2,depth=2"), ("'depth' is set twice",)),
    (("--scheduler", "paella:depth"), ("NAME:PARAMETER=NUMBER",)),
    (("--scheduler", "fifo,edf"), ("'fifo,edf'", "sequential")),
    (("--workers", "-1"), ("workers",)),
    (("--workers", "100000"), ("workers",)),
    (("--http-port", "99999"), ("99999",)),
    (("--device", "abacus"), ("abacus", "cpu")),
    (("--address", "not-an-address"), ("not-an-address",)),
    (("--log-level", "bogus"), ("log-level", "bogus", "debug", "info", "warning", "error", "off")),
    (("--http-port", "1234", "--grpc-port", "1234", "--metrics-port", "0"), ("HTTP and gRPC", "1234")),
])
def test_bad_setting_is_named(lagoon, digits_only, words, expected):
    ports = [] if "--http-port" in words else ANY_PORTS
    text = expect_no_start(lagoon, "--models", digits_only, *ports, *words)
    for word in expected:
        assert word in text


@pytest.mark.parametrize("workers", (1, 2))
def test_every_scheduler_serves(lagoon, digits_only, workers, test_split, digit_scores):
    with serving(lagoon, digits_only) as server:
        schedulers = server.post("/v2/scheduler", None)[1]["schedulers"]  # no body: GET
    assert {"sequential", "lagoon", "paella"} < set(schedulers)
    for scheduler in schedulers:
        with serving(lagoon, digits_only, "--scheduler", scheduler, "--workers", workers) as server:
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                answers = list(pool.map(lambda image: infer_digit(server, image), test_split[0][:16]))
        assert relative_error(np.concatenate(answers), digit_scores[:16]) <= TOLERANCE, scheduler


def test_the_scheduler_switches_while_requests_come_in(lagoon, digits_only, test_split, digit_scores):
    def switch(name, port="metrics"):
        return server.post("/v2/scheduler", json.dumps({"scheduler": name}).encode(), port=port)

    def in_use():
        return server.post("/v2/scheduler", None)[1]["scheduler"]  # no body: GET

    with serving(lagoon, digits_only, "--scheduler", "reset") as server:
        assert in_use() == "reset"
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            answers = [pool.submit(infer_digit, server, image) for image in test_split[0][:64]]
            for name in ("lagoon", "sequential", "paella", "reef"):
                status, body = switch(name)
                assert (status, body["scheduler"]) == (200, name)
        scores = np.concatenate([answer.result() for answer in answers])
        assert relative_error(scores, digit_scores[:64]) <= TOLERANCE
        status, body = switch("fifo", port="http")
        assert status == 403 and str(server.ports["metrics"]) in body["error"]
        status, body = switch("magic")
        assert status == 404 and "'magic'" in body["error"]
        assert in_use() == "reef"


def test_the_scheduler_switches_on_the_http_port_where_that_is_allowed(lagoon, digits_only):
    with serving(lagoon, digits_only, "--allow-admin-on-http") as server:
        assert server.post("/v2/scheduler", b'{"scheduler": "fifo"}')[0] == 200
        assert server.post("/v2/scheduler", None)[1]["scheduler"] == "fifo"


def test_parameters_come_from_the_command_line_and_over_http(lagoon, digits_only, test_split, digit_scores):
    def post(**body):
        return server.post("/v2/scheduler", json.dumps(body).encode(), port="metrics")

    with serving(lagoon, digits_only, "--scheduler", "paella:fairness_threshold=100,extra_blocks=4") as server:
        assert "scheduler 'paella:extra_blocks=4,fairness_threshold=100'" in server.log()
        _, body = server.post("/v2/scheduler", None)  # no body: GET
        assert (body["scheduler"], body["parameters"]) == (
            "paella", {"block_events": 16, "depth": 1, "extra_blocks": 4, "fairness_threshold": 100})
        status, body = post(scheduler="paella", parameters={"depth": 3, "fairness_threshold": 0.5})
        assert status == 200
        assert body["parameters"] == {"block_events": 16, "depth": 3, "extra_blocks": 8, "fairness_threshold": 0.5}
        assert server.post("/v2/scheduler", None)[1] == body
        assert post(scheduler="split:patience=4")[1]["parameters"]["patience"] == 4
        scores = np.concatenate([infer_digit(server, image) for image in test_split[0][:4]])
        assert relative_error(scores, digit_scores[:4]) <= TOLERANCE
        for status, words, wrong in (
                (400, "it has: none", {"scheduler": "streams", "parameters": {"depth": 2}}),
                (400, "from 1 to 64", {"scheduler": "fifo", "parameters": {"depth": 0}}),
                (400, "PARAMETER: NUMBER", {"scheduler": "fifo", "parameters": {"depth": "2"}}),
                (400, "PARAMETER: NUMBER", {"scheduler": "fifo", "parameters": {"depth": float("nan")}}),
                (400, "not in both", {"scheduler": "fifo:depth=2", "parameters": {"depth": 2}}),
                (404, "'fifi'", {"scheduler": "fifi", "parameters": {"depth": 2}})):
            answer = post(**wrong)
            assert answer[0] == status and words in answer[1]["error"], (wrong, answer)
        assert server.post("/v2/scheduler", None)[1]["scheduler"] == "split"
        listed = server.post("/v2/schedulers", None)[1]
        assert listed == json.loads(lagoon.run("schedulers", "--json").stdout)


def test_a_request_that_would_be_late_is_refused_at_once(lagoon, tmp_path, zoo):
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "resnet18").symlink_to(zoo("resnet18").parent.parent)
    with serving(lagoon, folder, "--scheduler", "clockwork") as server:
        client = server.http()
        tensor = triton_input(triton_http, "input", np.zeros((1, 3, 224, 224), np.float32))
        for _ in range(100):  # on a busy machine the request may expire before the scheduler gets it
            with pytest.raises(InferenceServerException) as refused:
                client.infer("resnet18", [tensor], timeout=2000)
            if "expired" not in str(refused.value):
                break
        client.close()
        took = re.search(r"model 'resnet18': would be late: .* would take (\d+\.\d+) ms", str(refused.value))
        assert took and float(took.group(1)) >= 2, refused.value
        assert refused.value.status() == "503"
        values, _ = server.metrics()
        assert values["lagoon_requests_too_late_total", "resnet18"] == 1


def make_mixed_repository(folder):
    """One model that works and eight that cannot. Returns name -> words of the reason."""
    (folder / "digits").symlink_to(DIGITS)
    cut = copy_model(DIGITS, folder, "cut") / "1" / "model.onnx"
    cut.write_bytes(cut.read_bytes()[:5000])
    (copy_model(DIGITS, folder, "no_file") / "1" / "model.onnx").unlink()
    copy_model(DIGITS, folder, "unknown_field", "frobnicate: 1\n")
    copy_model(DIGITS, folder, "ensemble", "ensemble_scheduling { }\n")
    wrong = copy_model(DIGITS, folder, "wrong_shape") / "config.pbtxt"
    wrong.write_text(wrong.read_text().replace("[ 1, 1, 8, 8 ]", "[ 1, 1, 9, 9 ]"))
    wrong = copy_model(DIGITS, folder, "wrong_name") / "config.pbtxt"
    wrong.write_text(wrong.read_text().replace('"image"', '"picture"'))
    (folder / "no_version").mkdir()
    (folder / "dangling").symlink_to(folder / "nowhere")
    return {"cut": ["model.onnx"], "no_file": ["model.onnx"], "unknown_field": ["frobnicate"],
            "ensemble": ["ensemble_scheduling"], "wrong_shape": ["image", "9"],
            "wrong_name": ["picture"],
            "no_version": ["version"], "dangling": ["is a link whose target cannot be read"]}


def test_broken_models_are_explained_and_the_good_one_serves(lagoon, tmp_path, test_split,
                                                             digit_scores):
    reasons = make_mixed_repository(tmp_path)
    with serving(lagoon, tmp_path) as server:
        assert relative_error(infer_digit(server, test_split[0][0]), digit_scores[:1]) <= TOLERANCE
        client = server.http()
        assert client.is_model_ready("digits")
        for name, words in reasons.items():
            assert not client.is_model_ready(name)
            with pytest.raises(InferenceServerException) as error:
                infer_digit(server, test_split[0][0], name)
            assert error.value.status() in ("503", "404", "400"), name
            message = error.value.message()
            assert f"'{name}'" in message and "log" in message, message
            assert str(tmp_path) not in message, message  # clients must not see the server's paths
            for word in (name, *words):
                assert word in server.log(), name
        client.close()
        status, index = server.post("/v2/repository/index", b"")
        assert status == 200
        shown = {row["name"]: row["reason"] for row in index if row["state"] != "READY"}
        assert shown.keys() == reasons.keys()
        values, _ = server.metrics()
        for name, words in reasons.items():
            assert all(word in shown[name] for word in words), shown[name]
            assert str(tmp_path) not in shown[name], shown[name]
            assert values["lagoon_model_not_served", name] == 1
        assert server.http().is_server_ready()


def test_a_refused_model_is_a_reason_not_to_be_ready_or_not_to_start(lagoon, tmp_path):
    make_mixed_repository(tmp_path)
    with serving(lagoon, tmp_path, "--strict-readiness") as server:
        for client in (server.http(), server.grpc()):
            assert client.is_server_live()
            assert not client.is_server_ready()
            assert client.is_model_ready("digits")
            client.close()
    text = expect_no_start(lagoon, "--models", tmp_path, "--exit-on-error", *ANY_PORTS)
    assert "wrong_name" in text and "picture" in text


def test_a_model_to_load_that_the_repository_lacks_is_not_served(lagoon, digits_only, test_split, digit_scores):
    words = ("--model-control", "explicit", "--load-model", "digits", "--load-model", "nope")
    with serving(lagoon, digits_only, *words) as server:
        assert relative_error(infer_digit(server, test_split[0][0]), digit_scores[:1]) <= TOLERANCE
        lines = [line for line in server.log().splitlines() if "nope" in line and "not served" in line]
        assert len(lines) == 2, server.log()  # the log's and the banner's
        with pytest.raises(InferenceServerException) as error:
            infer_digit(server, test_split[0][0], "nope")
        assert error.value.status() == "404"
        values, _ = server.metrics()
        assert values["lagoon_model_not_served", "nope"] == 1
    text = expect_no_start(lagoon, "--models", digits_only, *words, "--exit-on-error", *ANY_PORTS)
    assert "nope" in text and "the repository has no model of this name" in text


@pytest.mark.parametrize("protocol", ("http", "grpc"))
def test_a_load_may_bring_a_config_and_files(lagoon, digits_only, test_split, digit_scores, protocol):
    image, scores = test_split[0][0], digit_scores[:1]
    model = (digits_only / "digits" / "1" / "model.onnx").read_bytes()
    words = ("--model-control", "explicit", "--load-model", "digits", "--allow-admin-on-http")
    with serving(lagoon, digits_only, *words) as server, getattr(server, protocol)() as client:
        client.load_model("sent", config=json.dumps({"instance_group": [{"count": 2}]}),
                          files={"file:3/model.onnx": model})
        assert relative_error(infer_digit(server, image, "sent"), scores) <= TOLERANCE
        assert client.is_model_ready("sent", "3") and not server.http().is_model_ready("sent", "1")
        client.load_model("digits", config=json.dumps({"name": "digits", "instance_group": [{"count": 3}]}))
        assert server.http().get_model_config("digits")["instance_group"][0]["count"] == 3
        for config, files in (("no JSON", None), ('{"backend": "lagoon_job"}', {"file:1/job.so": model}),
                              ("{}", {"file:../digits/1/model.onnx": b"x"}), ("{}", {"file:1/model.onnx": b"x"})):
            with pytest.raises(InferenceServerException, match="digits"):
                client.load_model("digits", config=config, files=files)
            assert relative_error(infer_digit(server, image), scores) <= TOLERANCE
        with pytest.raises(InferenceServerException, match="config"):
            client.load_model("sent", files={"file:3/model.onnx": model})
        client.unload_model("sent")
        assert not server.http().is_model_ready("sent")


def test_the_metrics_port_may_have_an_address_of_its_own(lagoon, digits_only):
    with serving(lagoon, digits_only, "--metrics-address", "127.0.0.2") as server:
        assert f"127.0.0.2:{server.ports['metrics']}" in server.log()
        with socket.create_connection(("127.0.0.2", server.ports["metrics"]), timeout=60):
            pass
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", server.ports["metrics"]), timeout=60)


def test_signals_for_logs_are_ignored(lagoon, digits_only, test_split, digit_scores):
    with serving(lagoon, digits_only) as server:
        server.terminate(signal.SIGUSR1)
        server.terminate(signal.SIGUSR2)
        assert relative_error(infer_digit(server, test_split[0][0]), digit_scores[:1]) <= TOLERANCE


def test_model_that_cannot_meet_its_deadline_is_reported(lagoon, zoo, tmp_path):
    copy_model(zoo("resnet18").parent.parent, tmp_path, "hasty",
               'parameters { key: "lagoon.deadline_ms" value { string_value: "0.01" } }\n')
    with serving(lagoon, tmp_path) as server:
        log = server.log()
        assert any("hasty" in line and "deadline" in line for line in log.splitlines()), log


@pytest.mark.parametrize("how", (signal.SIGTERM, signal.SIGINT, signal.SIGHUP), ids=lambda how: how.name)
def test_signal_drains_and_ends_with_success(lagoon, zoo, tmp_path, how):
    """All requests in flight at the signal are answered, and the process exits with 0."""
    (tmp_path / "resnet18").symlink_to(zoo("resnet18").parent.parent)
    server = ServerProcess(lagoon, tmp_path, "--workers", 1).wait_ready()  # slower than requests come, on any machine
    count = 40
    try:
        status, alone = ask_resnet18(server)
        assert status == 200, alone
        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            pending = [pool.submit(ask_resnet18, server) for _ in range(count)]
            wait_until_accepted(server, count + 1)
            server.terminate(how)
            for request in pending:
                assert request.result() == (200, alone)
        assert server.wait() == 0, server.log()
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", server.ports["http"]), timeout=5)
    finally:
        server.close()


def test_what_the_drain_time_cuts_off_is_unavailable(lagoon, zoo, tmp_path):
    """503 and UNAVAILABLE, not "cancelled", which no client asked for."""
    (tmp_path / "resnet18").symlink_to(zoo("resnet18").parent.parent)
    server = ServerProcess(lagoon, tmp_path, "--workers", 1, "--drain-seconds", 0).wait_ready()
    count = 20  # over each protocol

    def ask_grpc():
        with server.grpc() as client:
            try:
                client.infer("resnet18", [triton_input(triton_grpc, "input", np.ones((1, 3, 224, 224), np.float32))])
            except InferenceServerException as error:
                return error.status(), error.message()
        return "OK", ""

    try:
        assert ask_resnet18(server)[0] == 200
        with concurrent.futures.ThreadPoolExecutor(2 * count) as pool:
            over_http = [pool.submit(ask_resnet18, server) for _ in range(count)]
            over_grpc = [pool.submit(ask_grpc) for _ in range(count)]
            wait_until_accepted(server, 2 * count + 1)
            server.terminate(signal.SIGTERM)
            statuses = [request.result() for request in over_http]
            codes = [request.result() for request in over_grpc]
        assert server.wait() == 0, server.log()
        assert {status for status, _ in statuses} <= {200, 503}, statuses
        assert {code for code, _ in codes} <= {"OK", "StatusCode.UNAVAILABLE"}, codes
        refused = [message for code, message in codes if code != "OK"] + [str(body) for status, body in statuses if status != 200]
        assert refused and all("shutting down" in message for message in refused), refused
    finally:
        server.close()


def ask_resnet18(server):
    """(status, answer) for an image of ones, sent as a binary tensor."""
    tensor = {"name": "input", "datatype": "FP32", "shape": [1, 3, 224, 224],
              "parameters": {"binary_data_size": 602112}}
    header = json.dumps({"inputs": [tensor]}).encode()
    image = np.ones((1, 3, 224, 224), np.float32)
    return server.post("/v2/models/resnet18/infer", header + image.tobytes(),
                       {"Inference-Header-Content-Length": str(len(header))})


def wait_until_accepted(server, count):
    """Waits until `count` requests for resnet18 are answered, running or waiting; some must still wait.

    No metric counts the running request: answered and waiting ones are count - 1. As for a moment
    between two runs no request runs, the sum must be the same twice in a row.
    """
    deadline = time.monotonic() + 60
    before = None
    while time.monotonic() < deadline:
        values, _ = server.metrics()
        now = [values[name, "resnet18"] for name in
               ("nv_inference_request_success", "nv_inference_pending_request_count")]
        if sum(now) >= count - 1 and now == before:
            assert now[1] > 0, "nothing was left to drain: the requests were answered too soon"
            return
        before = now
    raise AssertionError(f"{count} requests were not accepted in time: {now}")


def test_idle_connections_do_not_delay_the_end(lagoon, digits_only):
    server = ServerProcess(lagoon, digits_only).wait_ready()
    try:
        with socket.create_connection(("127.0.0.1", server.ports["http"])), server.grpc() as client:
            assert client.is_server_live()
            begin = time.monotonic()
            server.terminate()
            assert server.wait() == 0
            assert time.monotonic() - begin < 10
    finally:
        server.close()


def test_client_that_never_finishes_its_request_does_not_block_the_end(lagoon, digits_only):
    server = ServerProcess(lagoon, digits_only).wait_ready()
    try:
        with socket.create_connection(("127.0.0.1", server.ports["http"])) as connection:
            connection.sendall(b"POST /v2/models/digits/infer HTTP/1.1\r\nHost: a\r\n"
                               b"Content-Length: 99\r\n\r\n{")
            time.sleep(0.2)
            server.terminate()
            assert server.wait() == 0
    finally:
        server.close()


def test_ports_file_appears_whole(lagoon, digits_only):
    """As soon as the file exists, it is complete."""
    with serving(lagoon, digits_only) as server:
        ports = {server.ports[protocol] for protocol in ("http", "grpc", "metrics")}
        assert len(ports) == 3
        assert all(1024 <= port <= 65535 for port in ports)
        assert server.ports["models"]["digits"]["ready"] is True


def test_folder_names_of_any_bytes_disturb_nothing(lagoon, digits_only, test_split, digit_scores):
    """Names that are not UTF-8 do not break the ports file, and no name can forge a line of the log."""
    for name in (b"bad\xff", b"evil\n00:00:00.000 info model 'other': served"):
        (pathlib.Path(os.fsdecode(os.fsencode(digits_only) + b"/" + name)) / "1").mkdir(parents=True)
    with serving(lagoon, digits_only) as server:
        models = server.ports["models"]
        assert len(models) == 3 and models["digits"]["ready"] and not models["bad\ufffd"]["ready"]
        assert relative_error(infer_digit(server, test_split[0][0]), digit_scores[:1]) <= TOLERANCE
        log = server.log()
        assert not any(line.startswith("00:00:00.000 ") for line in log.splitlines()), log
        assert r"evil\x0a00:00:00.000" in log


def test_hangup_under_nohup_is_ignored(lagoon, digits_only, test_split, digit_scores):
    old = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup; children inherit it
    try:
        server = ServerProcess(lagoon, digits_only).wait_ready()
    finally:
        signal.signal(signal.SIGHUP, old)
    try:
        server.terminate(signal.SIGHUP)
        assert relative_error(infer_digit(server, test_split[0][0]), digit_scores[:1]) <= TOLERANCE
        server.terminate()
        assert server.wait() == 0
        assert server.log().count("draining") == 1
    finally:
        server.close()


def test_serve_prints_what_it_serves_and_where(lagoon, digits_only):
    with serving(lagoon, digits_only) as server:
        log = server.log()
        assert "digits" in log
        for protocol in ("http", "grpc", "metrics"):
            assert server.url(protocol) in log


def test_killed_server_leaves_its_port_free(lagoon, digits_only):
    first = ServerProcess(lagoon, digits_only).wait_ready()
    first.process.kill()
    first.process.wait()
    port = first.ports["http"]
    first.folder.cleanup()
    with serving(lagoon, digits_only, "--http-port", port) as second:
        assert second.ports["http"] == port
