#!/usr/bin/env python3
"""Generates tokens with onnxruntime-genai from a decoder of models/corpus/genai.py, for `lagoon bench generate`: reads a
line of JSON for each measurement, and answers with one.

Usage: genai_worker.py FILE.onnx --threads N      (0: onnxruntime-genai's default)
"""

import argparse
import json
import os
import pathlib
import sys
import tempfile
import time

import onnx
import onnxruntime_genai

CONTEXT = 8192


def dims_of(value):
    return [dim.dim_value or dim.dim_param for dim in value.type.tensor_type.shape.dim]


def config_of(file, threads):
    """What onnxruntime-genai must know of a model, from its file."""
    graph = onnx.load(file, load_external_data=False).graph
    attention = next(node for node in graph.node if node.op_type == "GroupQueryAttention")
    heads = next(attribute.i for attribute in attention.attribute if attribute.name == "num_heads")
    cache = next(dims_of(value) for value in graph.input if value.name == "past_key_values.0.key")
    vocabulary = dims_of(graph.output[0])[-1]
    names = {f"{time}_{kind}_names": f"{prefix}.%d.{end}" for time, prefix in (("past", "past_key_values"), ("present", "present"))
             for kind, end in (("key", "key"), ("value", "value"))}
    session = {"provider_options": [], **({"intra_op_num_threads": threads} if threads else {})}
    decoder = {"session_options": session, "filename": file.name, "head_size": cache[3], "hidden_size": heads * cache[3],
               "num_attention_heads": heads, "num_key_value_heads": cache[1],
               "num_hidden_layers": sum(value.name.endswith(".key") for value in graph.input),
               "inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask",
                          **{name: text for name, text in names.items() if name.startswith("past")}},
               "outputs": {"logits": "logits", **{name: text for name, text in names.items() if name.startswith("present")}}}
    return {"model": {"type": "llama", "bos_token_id": 0, "eos_token_id": vocabulary - 1, "pad_token_id": vocabulary - 1,
                      "context_length": CONTEXT, "vocab_size": vocabulary, "decoder": decoder},
            "search": {"do_sample": False, "max_length": CONTEXT, "past_present_share_buffer": True, "num_beams": 1}}


def tokens_per_second(model, prompt, tokens):
    """From the first new token to the last one, as Lagoon's clients count."""
    parameters = onnxruntime_genai.GeneratorParams(model)
    parameters.set_search_options(max_length=prompt + tokens + 1, min_length=prompt + tokens + 1)
    generator = onnxruntime_genai.Generator(model, parameters)
    generator.append_tokens([1 + i % 90 for i in range(prompt)])
    generator.generate_next_token()
    begin = time.perf_counter()
    for _ in range(tokens - 1):
        generator.generate_next_token()
    return (tokens - 1) / (time.perf_counter() - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=0)
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        os.symlink(words.file.absolute(), folder / words.file.name)
        (folder / "genai_config.json").write_text(json.dumps(config_of(words.file, words.threads)))
        model = onnxruntime_genai.Model(str(folder))
        for line in sys.stdin:
            asked = json.loads(line)
            rate = tokens_per_second(model, asked["prompt"], asked["tokens"])
            print(json.dumps({"ok": True, "tokens_per_second": rate}), flush=True)


if __name__ == "__main__":
    main()
