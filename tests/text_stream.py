"""Streams of the job program examples/jobs/chat.cc over Triton's client, and the texts that they should give."""

import queue

import numpy as np
import onnx
import onnxruntime
import tritonclient.grpc as triton_grpc

from server_process import triton_input


def chat_inputs(prompt, most=8, temperature=0.0, top_p=1.0, seed=0, stop=(), context=24):
    padded, stops = np.zeros(context, np.int64), np.full(4, -1, np.int64)
    padded[:len(prompt)], stops[:len(stop)] = prompt, stop
    def ints(name, values):
        return triton_input(triton_grpc, name, np.array(values, np.int64), "INT64")
    return [ints("prompt", padded), ints("length", [len(prompt)]), ints("max_tokens", [most]),
            triton_input(triton_grpc, "sampling", np.array([temperature, top_p], np.float32)),
            ints("seed", [seed]), ints("stop", stops)]


class Stream:
    """A stream of Triton's client, and what came on it."""

    def __init__(self, server):
        self.client = server.grpc()
        self._answers = queue.Queue()
        self.client.start_stream(lambda result, error: self._answers.put((result, error)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.stop_stream()
        self.client.close()

    def ask(self, prompt, request_id="", model="chat", **words):
        self.client.async_stream_infer(model, chat_inputs(prompt, **words), request_id=request_id,
                                       enable_empty_final_response=True)

    def next(self):
        result, error = self._answers.get(timeout=60)
        if error is not None:
            raise error
        return result

    def tokens(self, requests=1):
        """{id: tokens} of as many requests, up to their ends."""
        tokens = {}
        while requests > 0:
            answer = self.next().get_response()
            mine = tokens.setdefault(answer.id, [])
            if answer.parameters["triton_final_response"].bool_param:
                assert not answer.outputs
                requests -= 1
            else:
                mine.append(int(np.frombuffer(answer.raw_output_contents[0], np.int64)[0]))
        return tokens


class Reference:
    """A decoder in onnxruntime-genai's form, run by ONNX Runtime."""

    def __init__(self, model, path, shape):
        onnx.save(model, path)
        self.shape = shape
        self.session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        self.names = [value.name for value in self.session.get_inputs()]

    def generate(self, prompt, most):
        caches = [name for name in self.names if name.startswith("past")]
        past = {name: np.zeros((1, self.shape.key_heads, 0, self.shape.head), np.float32) for name in caches}
        tokens, fed = list(prompt), list(prompt)
        for length in range(len(prompt), len(prompt) + most):
            inputs = {"input_ids": np.array([fed]), "attention_mask": np.ones((1, length), np.int64), **past}
            if "position_ids" in self.names:
                inputs["position_ids"] = np.arange(length - len(fed), length)[None]
            logits, *present = self.session.run(None, inputs)
            past, fed = dict(zip(caches, present)), [int(logits[0, -1].argmax())]
            tokens += fed
        return tokens[len(prompt):]
