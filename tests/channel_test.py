"""Clients of `lagoon serve --channel`: the Python client in this process and in others, and what is left of the server when
clients die or lie."""

import os
import pathlib
import signal
import stat
import subprocess
import sys
import time

import numpy as np
import pytest
from server_process import serving

from conftest import DIGITS, ROOT

sys.path.insert(0, str(ROOT / "python"))
from lagoon import Channel, ChannelFailed, Client  # noqa: E402

CLIENT = """
import sys
sys.path.insert(0, {python!r})
from lagoon import Channel
channel = Channel({path!r}, 1 << 20)
image, scores = channel.array((1, 1, 8, 8)), channel.array((1, 10))
call = channel.call("digits", {{"image": image}}, {{"scores": scores}})
print("ready", flush=True)
while True:
    channel.run(call)
"""


@pytest.fixture(name="repository")
def fixture_repository(tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "digits").symlink_to(DIGITS)
    return tmp_path / "models"


@pytest.fixture(name="server")
def fixture_server(lagoon, repository, tmp_path):
    with serving(lagoon, repository, "--channel", tmp_path / "channel") as server:
        server.channel = tmp_path / "channel"
        yield server


def digits(channel):
    image, scores = channel.array((1, 1, 8, 8)), channel.array((1, 10))
    return image, channel.call("digits", {"image": image}, {"scores": scores})


def sample(seed):
    return np.random.default_rng(seed).random((1, 1, 8, 8), np.float32)


def test_answers_are_those_of_http(server):
    http = Client(f"http://{server.url('http')}")
    with Channel(server.channel, 1 << 20) as channel:
        image, call = digits(channel)
        for seed in range(200):
            image[:] = sample(seed)
            answer = channel.run(call)["scores"]
            assert answer.base is not None and answer.shape == (1, 10)
            if seed % 20 == 0:
                np.testing.assert_array_equal(answer, http.infer("digits", {"image": sample(seed)})["scores"])


def test_many_requests_in_flight(server):
    with Channel(server.channel, 1 << 20) as channel:
        calls = [digits(channel) for _ in range(16)]
        for seed, (image, _) in enumerate(calls):
            image[:] = sample(seed)
        tags = [channel.submit(call) for _, call in calls]
        scores = [channel.read(call, tag)["scores"].copy() for (_, call), tag in reversed(list(zip(calls, tags)))]
        assert channel.in_flight == 0
        for seed, one in enumerate(reversed(scores)):
            calls[0][0][:] = sample(seed)
            np.testing.assert_array_equal(one, channel.run(calls[0][1])["scores"])


def test_errors_name_the_object(server):
    with Channel(server.channel, 1 << 20) as channel:
        image, call = digits(channel)
        unknown = channel.call("nothing", call.inputs, call.outputs)
        with pytest.raises(ChannelFailed, match="nothing") as failure:
            channel.run(unknown)
        assert failure.value.code == 5
        with pytest.raises(ChannelFailed, match="Request timeout expired") as failure:
            channel.run(call, timeout_us=1)
        assert failure.value.code == 4
        wrong = channel.call("digits", {"image": image.reshape(1, 64)}, call.outputs)
        with pytest.raises(ChannelFailed, match="image"):
            channel.run(wrong)
        with pytest.raises(ChannelFailed, match="outputs"):
            channel.call("digits", call.inputs, {})
        with pytest.raises(ValueError, match="channel's memory"):
            channel.call("digits", {"image": sample(0)}, call.outputs)
        with pytest.raises(MemoryError):
            channel.array(1 << 20)
        assert channel.run(call)["scores"].shape == (1, 10)


def test_only_the_user_may_connect(server):
    assert stat.S_IMODE(os.stat(server.channel).st_mode) == 0o600


def test_killed_clients_leave_nothing(server, tmp_path):
    before = len(list(pathlib.Path(f"/proc/{server.process.pid}/fd").iterdir()))
    for _ in range(5):
        program = CLIENT.format(python=str(ROOT / "python"), path=str(server.channel))
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as client:
            assert client.stdout.readline() == "ready\n"
            client.send_signal(signal.SIGKILL)
    until = time.monotonic() + 30
    while len(list(pathlib.Path(f"/proc/{server.process.pid}/fd").iterdir())) > before and time.monotonic() < until:
        time.sleep(0.01)
    assert len(list(pathlib.Path(f"/proc/{server.process.pid}/fd").iterdir())) <= before
    with Channel(server.channel, 1 << 20) as channel:
        assert channel.run(digits(channel)[1])["scores"].shape == (1, 10)


def test_an_idle_channel_keeps_no_core_busy(server):
    with Channel(server.channel, 1 << 20) as channel:
        _, call = digits(channel)
        channel.run(call)
        ticks = lambda: sum(map(int, pathlib.Path(f"/proc/{server.process.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]))
        time.sleep(0.5)
        before = ticks()
        time.sleep(1)
        assert ticks() - before < 0.5 * os.sysconf("SC_CLK_TCK")
        channel.run(call)


def test_a_client_learns_that_the_server_has_gone(lagoon, repository, tmp_path):
    with serving(lagoon, repository, "--channel", tmp_path / "channel") as server:
        channel = Channel(tmp_path / "channel", 1 << 20)
        _, call = digits(channel)
        channel.run(call)
        server.terminate()
        assert server.wait() == 0
        with pytest.raises(ChannelFailed) as failure:
            channel.run(call)
        assert failure.value.code == 14
        channel.close()
    assert not (tmp_path / "channel").exists()


def test_a_path_that_cannot_be_used_is_refused_before_models_load(lagoon, repository, tmp_path):
    (tmp_path / "file").write_text("precious")
    result = lagoon.run("serve", "--models", repository, "--channel", tmp_path / "file", "--http-port", "0", "--grpc-port", "0",
                        "--metrics-port", "0")
    assert result.returncode == 1 and "the file exists and is no socket" in result.stderr
    assert (tmp_path / "file").read_text() == "precious"
