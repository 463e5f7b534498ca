"""A tiny language model with random weights, and repositories with job programs over it."""

import shutil

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HEADS, HEAD_SIZE = 2, 4
WIDTH = HEADS * HEAD_SIZE


class TinyModel:
    """One layer of attention over a cache of `length` tokens, in numpy and as the two graphs of its export."""

    def __init__(self, vocabulary, length):
        self.vocabulary, self.length = vocabulary, length
        random = np.random.default_rng(7)
        def weights(*shape):
            return random.standard_normal(shape).astype(np.float32)
        self.embedding, self.positions = weights(vocabulary, WIDTH), weights(length, WIDTH)
        self.q, self.k, self.v = (weights(WIDTH, WIDTH) for _ in range(3))
        self.head = weights(WIDTH, vocabulary)

    def next_token(self, tokens):
        """The most probable token after `tokens`, computed without a cache."""
        x = self.embedding[tokens] + self.positions[:len(tokens)]
        def heads(values):
            return values.reshape(len(tokens), HEADS, HEAD_SIZE).transpose(1, 0, 2)
        q, k, v = heads(x @ self.q), heads(x @ self.k), heads(x @ self.v)
        scores = q[:, -1:] @ k.transpose(0, 2, 1)
        share = np.exp(scores - scores.max(-1, keepdims=True))
        share /= share.sum(-1, keepdims=True)
        attended = (share @ v).transpose(1, 0, 2).reshape(1, WIDTH)
        return int(np.argmax((x[-1:] + attended) @ self.head))

    def generate(self, prompt, most):
        """Up to `most` tokens, then -1."""
        tokens = list(prompt)
        while len(tokens) <= self.length and len(tokens) - len(prompt) < most:
            tokens.append(self.next_token(tokens))
        new = tokens[len(prompt):]
        return new + [-1] * (most - len(new))

    def graph(self, queries, rows=1, in_place=False):
        """The graph for `queries` tokens: `length` (prefill of a prompt) or 1 (decode with a cache, of `rows` texts).
        `in_place`: the new entry goes into the cache, at the place that the mask's sum says."""
        decode = queries == 1
        keys = self.length + 1 if decode and not in_place else self.length
        nodes, constants = [], []
        def constant(name, value):
            constants.append(numpy_helper.from_array(np.asarray(value), name))
            return name
        def node(op, inputs, output, **attributes):
            nodes.append(helper.make_node(op, inputs, [output], **attributes))
            return output
        for name in ("embedding", "positions", "q", "k", "v", "head"):
            constant(name, getattr(self, name))
        words = node("Gather", ["embedding", "input_ids"], "words")
        if in_place:
            total = node("ReduceSum", ["attention_mask", constant("keys", [1])], "total", keepdims=1)
            node("Sub", [total, constant("one_key", [1])], "position_ids")
        places = node("Gather", ["positions", "position_ids"], "places") if decode else "positions"
        x = node("Add", [words, places], "x")
        shape = constant("shape", [rows, queries, HEADS, HEAD_SIZE])
        for name in "qkv":
            flat = node("MatMul", [x, name], f"{name}_flat")
            split = node("Reshape", [flat, shape], f"{name}_split")
            node("Transpose", [split], f"{name}_new" if decode and name != "q" else f"{name}_heads",
                 perm=[0, 2, 1, 3])
        if in_place:
            new = node("Equal", [constant("range", np.arange(keys).reshape(1, 1, keys, 1)),
                                 node("Reshape", ["position_ids", constant("place", [rows, 1, 1, 1])], "at")], "new")
            for name in "kv":
                node("Where", [new, f"{name}_new", f"past_{name}"], f"{name}_heads")
        elif decode:
            for name in "kv":
                node("Concat", [f"past_{name}", f"{name}_new"], f"{name}_heads", axis=2)
        turned = node("Transpose", ["k_heads"], "k_turned", perm=[0, 1, 3, 2])
        scores = node("MatMul", ["q_heads", turned], "scores")
        counts = node("Cast", ["attention_mask"], "counts", to=TensorProto.FLOAT)
        absent = node("Sub", [counts, constant("one", np.float32(1))], "absent")
        hidden = node("Mul", [absent, constant("large", np.float32(1e4))], "hidden")
        row = node("Reshape", [hidden, constant("row", [rows, 1, 1, keys])], "hidden_row")
        masked = node("Add", [scores, row], "masked")
        if not decode:
            later = np.triu(np.full((keys, keys), -1e4, np.float32), 1)
            masked = node("Add", [masked, constant("later", later)], "causal")
        share = node("Softmax", [masked], "share", axis=-1)
        mixed = node("Transpose", [node("MatMul", [share, "v_heads"], "attended")], "mixed", perm=[0, 2, 1, 3])
        joined = node("Reshape", [mixed, constant("joined", [rows, queries, WIDTH])], "values")
        node("MatMul", [node("Add", [x, joined], "y"), "head"], "logits")
        node("Identity", ["k_heads"], "present_k")
        node("Identity", ["v_heads"], "present_v")

        def tensor(name, kind, *dims):
            return helper.make_tensor_value_info(name, kind, dims)
        inputs = [tensor("input_ids", TensorProto.INT64, rows, queries),
                  tensor("attention_mask", TensorProto.INT64, rows, keys)]
        if decode and not in_place:
            inputs.append(tensor("position_ids", TensorProto.INT64, rows, 1))
        if decode:
            inputs += [tensor(f"past_{name}", TensorProto.FLOAT, rows, HEADS, self.length, HEAD_SIZE) for name in "kv"]
        outputs = [tensor("logits", TensorProto.FLOAT, rows, queries, self.vocabulary)]
        outputs += [tensor(f"present_{name}", TensorProto.FLOAT, rows, HEADS, keys, HEAD_SIZE) for name in "kv"]
        graph = helper.make_graph(nodes, "tiny", inputs, outputs, constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def add_program(repository, name, library, config):
    folder = repository / name / "1"
    folder.mkdir(parents=True)
    if library is not None:
        shutil.copy(library, folder / "job.so")
    (folder.parent / "config.pbtxt").write_text(f'backend: "lagoon_job"\n{config}')


def add_model(repository, name, model, config=""):
    folder = repository / name / "1"
    folder.mkdir(parents=True)
    onnx.save(model, folder / "model.onnx")
    (folder.parent / "config.pbtxt").write_text(config)


def parameter(key, value):
    return f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'


def add_chat(repository, name, library, model, rows, in_place=False):
    """The program examples/jobs/chat.cc over `model`, of which `rows` texts decode together. `in_place`: with a cache
    that is a buffer, and without a model for prompts."""
    if not in_place:
        add_model(repository, f"{name}_prefill", model.graph(model.length))
    add_model(repository, f"{name}_decode", model.graph(1, rows, in_place))
    add_program(repository, name, library, chat_config(name, model.length, prefill=not in_place))


def chat_config(name, context, prefill):
    def tensor(field, name, kind, size):
        return f'{field} {{ name: "{name}" data_type: TYPE_{kind} dims: [ {size} ] }}\n'
    return ("model_transaction_policy { decoupled: true }\n"
            + tensor("input", "prompt", "INT64", context) + tensor("input", "length", "INT64", 1)
            + tensor("input", "max_tokens", "INT64", 1) + tensor("input", "sampling", "FP32", 2)
            + tensor("input", "seed", "INT64", 1) + tensor("input", "stop", "INT64", 4)
            + tensor("output", "token", "INT64", 1) + parameter("lagoon.model.decode", f"{name}_decode")
            + (parameter("lagoon.model.prefill", f"{name}_prefill") if prefill else ""))


def decoder_config(positions, rows, tokens, priority=""):
    """For a decoder of corpus/genai.py: `tokens` of each of `rows` texts, in caches of `positions` tokens."""
    dims = {"batch_size": rows, "sequence_length": tokens, "past_sequence_length": positions,
            "total_sequence_length": positions}
    return priority + "".join(parameter(f"lagoon.dimension.{name}", size) for name, size in dims.items())
