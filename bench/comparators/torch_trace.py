#!/usr/bin/env python3
"""Writes the access trace of one request to a model in eager PyTorch, for `lagoon inspect --idempotence`.

Usage: torch_trace.py MODEL --out FILE [--device cpu]

MODEL is one of torch_models.py, torchvision:NAME, transformers:bert or transformers:gpt2.

The form is that of docs/design/idempotence.md: an operation for each call that PyTorch dispatches, without those that only
make a view or allocate. An operation reads its tensors and writes its results and the arguments that its schema marks as
written. Addresses are those of the tensors at the time, so that memory that PyTorch gives out again is seen as overwritten.
"""

import argparse
import json
import pathlib

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten


def range_of(tensor):
    """[address, bytes] from a tensor's first element to its last."""
    elements = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return [tensor.data_ptr(), elements * tensor.element_size()]


def ranges_of(values):
    tensors = (value for value in tree_flatten(values)[0] if isinstance(value, torch.Tensor))
    return [range_of(tensor) for tensor in tensors if tensor.numel() > 0]


def memory_of(values):
    """Where the memory of these tensors begins: views of a tensor have the same."""
    tensors = (value for value in tree_flatten(values)[0] if isinstance(value, torch.Tensor))
    storages = (one.untyped_storage() if hasattr(one, "untyped_storage") else one.storage()
                for one in tensors if one.numel() > 0)
    return {storage.data_ptr() for storage in storages}


class Recorder(TorchDispatchMode):
    """Records the operations that run inside its `with` block."""

    def __init__(self):
        super().__init__()
        self.operations = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        results = func(*args, **kwargs)
        schema = func._schema
        if schema.name.startswith("aten::empty"):
            return results
        given = [args[i] if i < len(args) else kwargs.get(one.name) for i, one in enumerate(schema.arguments)]
        written = [value for value, one in zip(given, schema.arguments)
                   if one.alias_info is not None and one.alias_info.is_write]
        # Some views say in their schema that they are none: aten::_unsafe_view.
        is_view = any(one.alias_info is not None and not one.alias_info.is_write for one in schema.returns)
        memory = memory_of(results)
        if is_view or (memory and not written and memory <= memory_of(given)):
            return results
        writes = ranges_of([results, written])
        self.operations.append({"name": schema.name, "reads": ranges_of(given),
                                "writes": [one for i, one in enumerate(writes) if one not in writes[:i]]})
        return results


def trace(module, inputs):
    """The operations of module(*inputs)."""
    recorder = Recorder()
    with torch.no_grad(), recorder:
        module(*inputs)
    return recorder.operations


def module_and_input(name):
    """A model with random weights, and an input of one row."""
    library, _, inside = name.rpartition(":")
    if library == "torchvision":
        from torchvision import models  # pylint: disable=import-outside-toplevel
        if not callable(getattr(models, inside, None)):
            raise SystemExit(f"torchvision.models has no model '{inside}'")
        size = 299 if inside == "inception_v3" else 224
        return getattr(models, inside)(weights=None).eval(), torch.rand(1, 3, size, size)
    if library == "transformers":
        import transformers  # pylint: disable=import-outside-toplevel
        makers = {"bert": (transformers.BertModel, transformers.BertConfig),
                  "gpt2": (transformers.GPT2LMHeadModel, transformers.GPT2Config)}
        if inside not in makers:
            raise SystemExit(f"of transformers there are {', '.join(makers)}, not '{inside}'")
        model, config = makers[inside]
        return model(config()).eval(), torch.randint(0, 8192, (1, 128))
    from torch_models import make, make_input  # pylint: disable=import-outside-toplevel
    return make(name), make_input(name, 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    module, given = module_and_input(arguments.model)
    operations = trace(module.to(arguments.device), [given.to(arguments.device)])
    arguments.out.write_text(json.dumps({"operations": operations}))


if __name__ == "__main__":
    main()
