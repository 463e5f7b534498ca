"""The command `lagoon openai`: serves OpenAI's API in front of a Lagoon server."""

import argparse
import asyncio
import json
import pathlib
import signal

from aiohttp import web

from lagoon.openai.backend import Backend
from lagoon.openai.server import Front
from lagoon.openai.tokens import Tokenizer


def read_words(words=None):
    parser = argparse.ArgumentParser(prog="lagoon openai", description=__doc__)
    parser.add_argument("--server", default="127.0.0.1:8001", help="the server's gRPC address")
    parser.add_argument("--model", action="append", required=True, metavar="NAME=FOLDER",
                        help="a model of the server, and the folder with its tokenizer.json; once for each model")
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9000, help="0: any free one")
    parser.add_argument("--ports-file", help="a file to write the port to, as JSON, when it serves")
    return parser.parse_args(words)


async def serve(words):
    models = dict(entry.partition("=")[::2] for entry in words.model)
    tokenizers = {name: Tokenizer(folder) for name, folder in models.items()}
    backend = Backend(words.server)
    runner = web.AppRunner(Front(backend, tokenizers).app(), handler_cancellation=True, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, words.address, words.port, shutdown_timeout=10)
    await site.start()
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
    asyncio.run(serve(read_words(words)))
