"""Why was it late: histograms, records of late requests, spans for a collector, and the board."""

import http.server
import json
import re
import socket
import threading
import time

import numpy as np
import pytest
from conftest import DIGITS, ROOT
from server_process import serving, triton_grpc, triton_http, triton_input

BOARD = ROOT / "examples" / "grafana" / "lagoon.json"
TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = f"00-{TRACE}-b7ad6b7169203331-01"


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("late")
    (folder / "digits").symlink_to(DIGITS)
    return folder


def images():
    return np.zeros((1, 1, 8, 8), np.float32)


def ask(server, **words):
    tensor = triton_input(triton_http, "image", images())
    return server.http().infer("digits", [tensor], **words)


def eventually(condition, seconds=60):
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.02)
    return found


class Collector:
    """Takes OTLP over HTTP."""

    def __init__(self):
        self.spans = []
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                assert self.path == "/v1/traces" and self.headers["Content-Type"] == "application/json"
                for resource in body["resourceSpans"]:
                    for scope in resource["scopeSpans"]:
                        collector.spans += scope["spans"]
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *words):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.server.shutdown()
        self.server.server_close()

    @property
    def url(self):
        return f"127.0.0.1:{self.server.server_address[1]}/v1/traces"

    def requests(self):
        return [span for span in self.spans if span["name"] == "InferRequest"]


def attributes(span):
    return {one["key"]: next(iter(one["value"].values())) for one in span["attributes"]}


def metric_names(expression):
    return set(re.findall(r"\b(?:nv|lagoon)_\w+", expression))


def test_the_board_names_metrics_that_there_are(lagoon, digits):
    board = json.loads(BOARD.read_text())
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    expressions += [variable["query"] for variable in board["templating"]["list"]]
    names = set().union(*map(metric_names, expressions))
    assert len(names) > 15, names
    with serving(lagoon, digits) as server:
        ask(server)
        _, text = server.metrics()
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
    for name in names:
        base = re.sub(r"_(bucket|sum|count)$", "", name)
        kind = kinds.get(name) or ("histogram" if kinds.get(base) == "histogram" else None)
        assert kind, f"{name} is not on /metrics"


def test_histograms_add_up_to_the_counters(lagoon, digits):
    with serving(lagoon, digits) as server:
        for _ in range(5):
            ask(server)
        ask(server, priority=2)
        values, text = server.metrics()
    for stage in ("request", "queue", "compute_input", "compute_infer", "compute_output"):
        total = values[f"nv_inference_{stage}_duration_us", "digits"]
        name = f"nv_inference_{stage}_duration_histogram_us"
        assert values[f"{name}_count", "digits"] == 6
        assert abs(values[f"{name}_sum", "digits"] - total) < 6
        buckets = re.findall(rf'^{name}_bucket\{{.*class="([^"]*)".*le="([^"]*)"\}} (\d+)$', text, re.M)
        for name_of_class in {row[0] for row in buckets}:
            counts = [int(row[2]) for row in buckets if row[0] == name_of_class]
            assert counts == sorted(counts) and len(counts) == 18


def test_a_late_request_has_a_record_and_a_line(lagoon, digits, tmp_path):
    file = tmp_path / "late.json"
    with serving(lagoon, digits, "--late-file", file) as server:
        ask(server)
        with pytest.raises(triton_http.InferenceServerException, match="timeout expired"):
            ask(server, timeout=1, request_id="too\nlate", headers={"traceparent": TRACEPARENT})
        record = json.loads(eventually(lambda: file.read_text() if file.exists() else ""))
        log = eventually(lambda: server.log() if "was late" in server.log() else "")
    assert record["model"] == "digits" and record["id"] == "too\nlate"
    assert record["outcome"] == "expired" and record["allowed_us"] == 1
    assert record["trace_id"] == TRACE
    assert abs(sum(record["waits_us"].values()) - record["took_us"]) < 5
    assert len([line for line in log.splitlines() if "was late" in line]) == 1


def test_a_full_disk_stops_no_request(lagoon, digits):
    with serving(lagoon, digits, "--late-file", "/dev/full") as server:
        for _ in range(20):
            with pytest.raises(triton_http.InferenceServerException, match="timeout expired"):
                ask(server, timeout=1)
        ask(server)
        log = eventually(lambda: server.log() if "--late-file: cannot write" in server.log() else "")
        assert log.count("--late-file: cannot write") == 1


def test_spans_of_http_and_grpc_belong_to_the_clients_trace(lagoon, digits):
    with Collector() as collector, \
            serving(lagoon, digits, "--otlp", collector.url, "--otlp-rate", 0) as server:
        ask(server, request_id="h", headers={"traceparent": TRACEPARENT})
        ask(server, request_id="no", headers={"traceparent": TRACEPARENT[:-1] + "0"})
        ask(server, request_id="no")
        tensor = triton_input(triton_grpc, "image", images())
        server.grpc().infer("digits", [tensor], request_id="g", headers={"traceparent": TRACEPARENT})
        eventually(lambda: len(collector.requests()) == 2)
        eventually(lambda: server.metrics()[0]["lagoon_traced_requests_sent_total", ""] == 2)
    assert {attributes(span)["lagoon.request_id"] for span in collector.requests()} == {"h", "g"}
    for span in collector.requests():
        assert span["traceId"] == TRACE and span["parentSpanId"] == TRACEPARENT[36:52]
        assert attributes(span)["lagoon.model"] == "digits"
        stages = [one for one in collector.spans if one.get("parentSpanId") == span["spanId"]]
        assert {"compute_infer", "queue"} <= {one["name"] for one in stages}
        assert all(span["startTimeUnixNano"] <= one["startTimeUnixNano"] <= one["endTimeUnixNano"]
                   <= span["endTimeUnixNano"] for one in stages)


def test_triton_spells_the_options(lagoon, digits):
    with Collector() as collector, \
            serving(lagoon, digits, "--trace-config", "mode=opentelemetry", "--trace-config",
                    f"opentelemetry,url={collector.url}", "--trace-config", "rate=2") as server:
        for _ in range(4):
            ask(server)
        eventually(lambda: len(collector.requests()) == 2)


@pytest.mark.parametrize("value", ("", "00", "ff" + TRACEPARENT[2:], TRACEPARENT.upper(),
                                   TRACEPARENT + "-more", "00-" + "0" * 32 + TRACEPARENT[35:]))
def test_a_traceparent_that_is_not_valid_is_ignored(lagoon, digits, value):
    with Collector() as collector, \
            serving(lagoon, digits, "--otlp", collector.url, "--otlp-rate", 1) as server:
        ask(server, headers={"traceparent": value})
        span = eventually(collector.requests)[0]
    assert span["traceId"] != TRACE and "parentSpanId" not in span


def test_a_traceparent_of_a_megabyte_is_refused_and_the_server_serves_on(lagoon, digits):
    with serving(lagoon, digits, "--otlp", "127.0.0.1:1") as server:
        body = b'{"inputs":[]}'
        with socket.create_connection(("127.0.0.1", server.ports["http"]), timeout=60) as client:
            try:
                client.sendall(b"POST /v2/models/digits/infer HTTP/1.1\r\nHost: a\r\nContent-Length: "
                               b"%d\r\ntraceparent: %s\r\n\r\n%s" % (len(body), b"0" * (1 << 20), body))
                answer = client.recv(4096)
            except OSError:  # the server has closed the connection
                answer = b""
        assert answer == b"" or b" 431 " in answer
        tensor = triton_input(triton_grpc, "image", images())
        with pytest.raises(triton_grpc.InferenceServerException):
            server.grpc().infer("digits", [tensor], headers={"traceparent": "0" * (1 << 20)})
        ask(server)


def test_a_collector_that_hangs_hurts_no_request(lagoon, digits):
    with socket.create_server(("127.0.0.1", 0)) as silent, \
            serving(lagoon, digits, "--otlp", f"127.0.0.1:{silent.getsockname()[1]}",
                    "--otlp-rate", 1) as server:
        for _ in range(20):
            ask(server)
        eventually(lambda: server.metrics()[0]["lagoon_traced_requests_dropped_total", ""] > 0)
        assert server.log().count("does not take spans") == 1
