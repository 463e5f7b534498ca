"""Serves OpenAI's API in front of a Lagoon server: `python3 -m lagoon.openai`, in the wheel also `lagoon openai`."""

import argparse
import asyncio
import json
import pathlib
import signal
import sys

from aiohttp import web

from lagoon.openai.backend import Backend
from lagoon.openai.requests import ApiError
from lagoon.openai.server import Front
from lagoon.openai.tokens import Tokenizer, TokenizerError


class StartError(Exception):
    """Why the front does not start, in one line."""


def read_words(words=None):
    parser = argparse.ArgumentParser(prog="python3 -m lagoon.openai", description=__doc__)
    parser.add_argument("--server", default="127.0.0.1:8001", help="the server's gRPC address")
    parser.add_argument("--model", action="append", required=True, metavar="NAME=FOLDER",
                        help="a model of the server, and the folder with its tokenizer.json; once for each model")
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9000, help="0: any free one")
    parser.add_argument("--ports-file", help="a file to write the port to, as JSON, when it serves")
    return parser.parse_args(words)


def read_tokenizers(entries):
    """{name: Tokenizer} of the words NAME=FOLDER."""
    tokenizers = {}
    for entry in entries:
        name, equals, folder = entry.partition("=")
        if not (name and equals and folder):
            raise StartError(f"--model {entry!r}: it takes NAME=FOLDER, a model of the server and the folder with its "
                             "tokenizer.json")
        if name in tokenizers:
            raise StartError(f"--model {entry!r}: there are two folders for model {name!r}; name each model once")
        try:
            tokenizers[name] = Tokenizer(folder)
        except TokenizerError as error:
            raise StartError(f"--model {entry!r}: {error}") from error
    return tokenizers


async def listen(runner, words):
    site = web.TCPSite(runner, words.address, words.port, shutdown_timeout=10)
    try:
        await site.start()
    except (OSError, OverflowError) as error:
        raise StartError(f"cannot listen on {words.address}:{words.port}: {error}; choose another --address or --port"
                         ) from error


async def check(backend, server, models):
    for model in models:
        try:
            await backend.check(model)
        except ApiError as error:
            await backend.close()
            raise StartError(f"--server {server}: {error}") from error


async def serve(words):
    tokenizers = read_tokenizers(words.model)
    backend = Backend(words.server)
    await check(backend, words.server, tokenizers)
    runner = web.AppRunner(Front(backend, tokenizers).app(), handler_cancellation=True, access_log=None)
    await runner.setup()
    await listen(runner, words)
    port = runner.addresses[0][1]
    if words.ports_file:
        ready = pathlib.Path(words.ports_file)
        ready.with_suffix(".part").write_text(json.dumps({"openai": port}))
        ready.with_suffix(".part").rename(ready)
    print(f"OpenAI's API is served on http://{words.address}:{port}/v1", flush=True)
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    await ended.wait()
    await runner.cleanup()
    await backend.close()


def main(words=None):
    try:
        asyncio.run(serve(read_words(words)))
    except StartError as error:
        sys.exit(f"lagoon.openai: {error}")
