#!/usr/bin/env python3
"""Generates the model zoo: five torchvision CNNs with random, calibrated weights, for Triton.

No weights are downloaded. Plain random weights answer the same class whatever they see and let
activations run away or die out, so one calibration pass over seeded images that have the spectrum
of photographs sets every batch-norm's statistics; where a layer has no batch-norm behind it, its
weights and bias are scaled instead so that each of its channels has mean 0.5 and deviation 1. Each
model is then checked with ONNX Runtime: 16 other images must give at least 4 different top-1
classes.

Usage: zoo.py [NAME...] [--out DIR] [--small] [--force] [--list]
"""

import argparse
import hashlib
import json
import pathlib
import sys
import time
import warnings

CHECKED_IMAGES = 16
MIN_CLASSES = 4
OPSET = 13
# Above 0, so that ReLU passes most of a channel: at 0, VGG-19 amplifies rounding twice as much.
CHANNEL_MEAN = 0.5
STAMP = "zoo.json"  # in the model's folder: what it was made by, and the hashes of its files

# Name -> seed of its weights, images to calibrate on. (VGG's activations are the largest by far.)
ZOO = {
    "resnet18": (18, 32),
    "resnet50": (50, 24),
    "mobilenet_v2": (2, 32),
    "squeezenet1_1": (11, 32),
    "vgg19": (19, 16),
}
REALTIME = {"resnet18"}
SMALL = ("resnet18", "mobilenet_v2", "squeezenet1_1")  # what the tests need: 66 MB

CONFIG = """\
name: "{name}"
platform: "onnxruntime_onnx"
max_batch_size: 0
input [
  {{
    name: "input"
    data_type: TYPE_FP32
    dims: [ 1, 3, 224, 224 ]
  }}
]
output [
  {{
    name: "output"
    data_type: TYPE_FP32
    dims: [ 1, 1000 ]
  }}
]
"""


def make_images(count, seed):
    """float32 [count, 3, 224, 224], about mean 0 and deviation 1, as after normalisation.

    Amplitude falls with 1/frequency as in photographs; colours are correlated, and brightness and
    contrast differ from image to image. White noise would not do: after two poolings it is the
    same grey everywhere.
    """
    import numpy as np
    random = np.random.default_rng(seed)
    size = 224
    frequency = np.hypot(np.fft.fftfreq(size)[:, None], np.fft.rfftfreq(size)[None, :])
    falloff = 1 / np.maximum(frequency, 1 / size) ** random.uniform(0.8, 1.4, (count, 1, 1, 1))
    spectrum = np.fft.rfft2(random.standard_normal((count, 4, size, size))) * falloff
    planes = np.fft.irfft2(spectrum, s=(size, size))
    planes /= planes.std(axis=(2, 3), keepdims=True)
    images = 0.8 * planes[:, :1] + 0.6 * planes[:, 1:]  # a shared luminance and three colours
    contrast = random.uniform(0.5, 1.3, (count, 1, 1, 1))
    cast = random.normal(0, 0.5, (count, 3, 1, 1))
    return (images * contrast + cast).astype(np.float32)


def randomise_batch_norms(model, generator):
    """Scale and shift as after training: with 1 and 0, half of fusion would go untested.

    The last batch-norm of a residual branch is small, as in trained networks. At full scale, 16
    random blocks amplify rounding errors (ResNet-50, two orders of the same sums: 8e-5 of the
    largest output instead of 6e-6), and a comparison of two runtimes would say little.
    """
    import torch
    for layer in model.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.weight.data.uniform_(0.6, 1.4, generator=generator)
            layer.bias.data.normal_(0.3, 0.2, generator=generator)
    for block in model.modules():
        last = last_batch_norm(block)
        if last is not None:
            last.weight.data.mul_(0.3)


def last_batch_norm(block):
    """The batch-norm before the addition, if `block` is a residual block."""
    from torchvision.models import mobilenetv2, resnet
    if isinstance(block, resnet.BasicBlock):
        return block.bn2
    if isinstance(block, resnet.Bottleneck):
        return block.bn3
    if isinstance(block, mobilenetv2.InvertedResidual) and block.use_res_connect:
        return block.conv[-1]
    return None


def normalise_output(layer, _, output):
    """Forward hook of a layer without batch-norm: sets mean and deviation of its `output`."""
    axes = [axis for axis in range(output.dim()) if axis != 1]
    mean = output.mean(axes)
    scale = 1 / output.std(axes).clamp_min(1e-3)
    layer.weight.data.mul_(scale.view(-1, *[1] * (layer.weight.dim() - 1)))
    layer.bias.data.sub_(mean).mul_(scale).add_(CHANNEL_MEAN)
    shape = [1, -1] + [1] * (output.dim() - 2)
    return (output - mean.view(shape)) * scale.view(shape) + CHANNEL_MEAN


def calibrate(model, images):
    """One pass sets the statistics of every layer from what the layers before it give."""
    import torch
    hooks = []
    for layer in model.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.momentum = None  # the plain mean over what it sees
            layer.train()
        elif isinstance(layer, (torch.nn.Conv2d, torch.nn.Linear)) and layer.bias is not None:
            hooks.append(layer.register_forward_hook(normalise_output))
    with torch.no_grad():
        model(torch.from_numpy(images))
    for hook in hooks:
        hook.remove()
    return model.eval()


def build(name):
    import torch
    import torchvision
    seed, count = ZOO[name]
    torch.manual_seed(seed)
    model = torchvision.models.get_model(name, weights=None).eval()
    randomise_batch_norms(model, torch.Generator().manual_seed(seed))
    return calibrate(model, make_images(count, seed))


def export(model, path):
    import torch
    # PRESERVE keeps the batch-norms as nodes: they are for Lagoon's own fusion to move.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model, torch.zeros(1, 3, 224, 224), str(path), opset_version=OPSET,
            input_names=["input"], output_names=["output"], do_constant_folding=False,
            training=torch.onnx.TrainingMode.PRESERVE)


def check(name, path):
    """The number of different top-1 classes of the check images; fails when there are too few."""
    import onnxruntime
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    classes = set()
    for image in make_images(CHECKED_IMAGES, ZOO[name][0] + 1000):
        output = session.run(["output"], {"input": image[None]})[0]
        classes.add(int(output.argmax()))
    if len(classes) < MIN_CLASSES:
        raise SystemExit(f"{name}: {CHECKED_IMAGES} images give {len(classes)} top-1 classes, "
                         f"at least {MIN_CLASSES} are needed")
    return len(classes)


def make_key(name):
    """Identifies what a model is made by: this script and the versions of what it calls."""
    import importlib.metadata as metadata
    versions = [metadata.version(package) for package in ("torch", "torchvision", "numpy")]
    script = pathlib.Path(__file__).read_bytes()
    return hashlib.sha256(script + repr((name, versions)).encode()).hexdigest()


def hash_file(path):
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def up_to_date(folder, key):
    """Trusts sizes and not hashes: hashing 600 MB at every start would be felt."""
    try:
        stamp = json.loads((folder / STAMP).read_text())
        return stamp["key"] == key and all(
            (folder / file).stat().st_size == entry["bytes"]
            for file, entry in stamp["files"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def generate(name, out, key):
    """Writes one model; the stamp comes last, so that what was interrupted is made again."""
    folder = out / name
    (folder / "1").mkdir(parents=True, exist_ok=True)
    (folder / STAMP).unlink(missing_ok=True)
    path = folder / "1" / "model.onnx"
    partial = folder / "1" / "model.onnx.partial"
    export(build(name), partial)
    classes = check(name, partial)
    partial.replace(path)
    config = CONFIG.format(name=name)
    if name in REALTIME:
        config += "optimization { priority: PRIORITY_MAX }\n"
    (folder / "config.pbtxt").write_text(config)
    files = {file: {"bytes": (folder / file).stat().st_size, "sha256": hash_file(folder / file)}
             for file in ("1/model.onnx", "config.pbtxt")}
    stamp = {"key": key, "classes": classes, "files": files}
    (folder / STAMP).write_text(json.dumps(stamp, indent=2) + "\n")
    return stamp


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME",
                        help=f"default: all of {', '.join(ZOO)}")
    parser.add_argument("--out", type=pathlib.Path, help="the repository (default: models/zoo)",
                        default=pathlib.Path(__file__).resolve().parent / "zoo")
    parser.add_argument("--small", action="store_true", help=f"the default is {', '.join(SMALL)}")
    parser.add_argument("--force", action="store_true", help="make again what is up to date")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - set(ZOO))
    if unknown:
        parser.error(f"no model {', '.join(unknown)} in the zoo: there are {', '.join(ZOO)}")
    return arguments


def main():
    arguments = parse_arguments()
    if arguments.list:
        print("\n".join(ZOO))
        return
    names = arguments.names or list(SMALL if arguments.small else ZOO)
    for index, name in enumerate(names, 1):
        label = f"[{index}/{len(names)}] {name}"
        key = make_key(name)
        if not arguments.force and up_to_date(arguments.out / name, key):
            print(f"{label}: up to date", flush=True)
            continue
        print(f"{label}: generating ...", flush=True)
        start = time.monotonic()
        stamp = generate(name, arguments.out, key)
        model = stamp["files"]["1/model.onnx"]
        print(f"{label}: {model['bytes'] / 1e6:.1f} MB in {time.monotonic() - start:.0f} s, "
              f"{stamp['classes']} classes in {CHECKED_IMAGES} images, "
              f"sha256 {model['sha256'][:16]}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
