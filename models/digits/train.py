#!/usr/bin/env python3
"""Trains the digit classifier that ships with Lagoon, and writes all its committed files.

Data: the 1,797 handwritten 8x8 digits of scikit-learn (sklearn.datasets.load_digits), split into
1,437 images to train with and 360 to test with, each digit in proportion. The same machine and
versions give the same bytes again. Needs torch, scikit-learn, Pillow and numpy; serving and
testing need none of them (the test split is committed as test_split.npz).

Usage: train.py [--out DIR]     DIR has digits/ and repository/ (default: models/)
"""

import argparse
import json
import pathlib

import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn import functional

SEED = 20240229
TEST_IMAGES = 360
EPOCHS = 60
BATCH = 64
PEAK_LEARNING_RATE = 5e-3
SAMPLES = (3, 5, 8)  # digits with a ready request
OPSET = 13
MAX_PIXEL = 16  # the images have 17 grey levels
MIN_ACCURACY = 0.97

CONFIG = """\
name: "digits"
platform: "onnxruntime_onnx"
max_batch_size: 0
input [
  {
    name: "image"
    data_type: TYPE_FP32
    dims: [ 1, 1, 8, 8 ]
  }
]
output [
  {
    name: "scores"
    data_type: TYPE_FP32
    dims: [ 1, 10 ]
  }
]
optimization { priority: PRIORITY_MAX }
"""


class DigitNet(nn.Module):
    """[n, 1, 8, 8] in 0..1 -> probabilities [n, 10]."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(),
            nn.MaxPool2d(2))
        self.classifier = nn.Sequential(
            nn.Flatten(), nn.Linear(128, 64), nn.ReLU(), nn.Dropout(0.25), nn.Linear(64, 10))

    def logits(self, image):
        return self.classifier(self.features(image))

    def forward(self, image):
        return functional.softmax(self.logits(image), dim=1)


def load_split():
    """(train images, train labels, test images, test labels); images [n, 8, 8] uint8 in 0..16."""
    digits = load_digits()
    images = digits.images.astype(np.uint8)
    labels = digits.target.astype(np.uint8)
    train, test = train_test_split(
        np.arange(len(labels)), test_size=TEST_IMAGES, random_state=SEED, stratify=labels)
    return images[train], labels[train], images[test], labels[test]


def to_input(images):
    """uint8 [n, 8, 8] in 0..16 -> the model's input: float32 [n, 1, 8, 8] in 0..1."""
    return (images.astype(np.float32) / MAX_PIXEL)[:, None]


def shift_randomly(batch, generator):
    """Moves each image by at most one pixel, because 1,437 images are few and handwriting is not centred."""
    padded = functional.pad(batch, (1, 1, 1, 1))
    offsets = torch.randint(0, 3, (len(batch), 2), generator=generator)
    return torch.stack([image[:, y:y + 8, x:x + 8]
                        for image, (y, x) in zip(padded, offsets.tolist())])


def train(images, labels):
    torch.manual_seed(SEED)
    generator = torch.Generator().manual_seed(SEED)
    model = DigitNet()
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=1e-3)
    steps = -(-len(images) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, PEAK_LEARNING_RATE, epochs=EPOCHS, steps_per_epoch=steps)
    x = torch.from_numpy(to_input(images))
    y = torch.from_numpy(labels.astype(np.int64))
    for epoch in range(EPOCHS):
        total = 0.0
        for batch in torch.randperm(len(x), generator=generator).split(BATCH):
            optimizer.zero_grad()
            logits = model.logits(shift_randomly(x[batch], generator))
            loss = functional.cross_entropy(logits, y[batch], label_smoothing=0.05)
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * len(batch)
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1}/{EPOCHS}: loss {total / len(x):.4f}", flush=True)
    return model.eval()


def accuracy(model, images, labels):
    with torch.no_grad():
        predicted = model(torch.from_numpy(to_input(images))).argmax(dim=1).numpy()
    return float((predicted == labels).mean())


def export(model, folder):
    (folder / "1").mkdir(parents=True, exist_ok=True)
    # PRESERVE keeps the batch-norms as nodes: the exporter would otherwise fold them, and Lagoon's
    # own fusion would never see one.
    torch.onnx.export(
        model, torch.zeros(1, 1, 8, 8), str(folder / "1" / "model.onnx"), opset_version=OPSET,
        input_names=["image"], output_names=["scores"], do_constant_folding=True,
        training=torch.onnx.TrainingMode.PRESERVE)
    (folder / "config.pbtxt").write_text(CONFIG)
    (folder / "labels.txt").write_text("".join(f"{digit}\n" for digit in range(10)))


def write_samples(folder, images, labels):
    """For each sample digit its first test image: a KServe v2 request, a .npy and a .png."""
    folder.mkdir(parents=True, exist_ok=True)
    for digit in SAMPLES:
        image = images[int(np.flatnonzero(labels == digit)[0])]
        tensor = to_input(image[None])
        request = {"inputs": [{"name": "image", "shape": list(tensor.shape), "datatype": "FP32",
                               "data": tensor.ravel().tolist()}]}
        (folder / f"digit-{digit}.json").write_text(json.dumps(request) + "\n")
        np.save(folder / f"digit-{digit}.npy", tensor)
        pixels = np.round(image.astype(np.float32) * 255 / MAX_PIXEL).astype(np.uint8)
        Image.fromarray(pixels, mode="L").save(folder / f"digit-{digit}.png", optimize=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent)
    out = parser.parse_args().out
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    images, labels, test_images, test_labels = load_split()
    print(f"{len(images)} training images, {len(test_images)} test images", flush=True)
    model = train(images, labels)
    score = accuracy(model, test_images, test_labels)
    print(f"accuracy: training {accuracy(model, images, labels):.4f}, test {score:.4f}")
    if score < MIN_ACCURACY:
        raise SystemExit(f"test accuracy {score:.4f} is below {MIN_ACCURACY}: nothing written")
    export(model, out / "repository" / "digits")
    write_samples(out / "digits" / "samples", test_images, test_labels)
    np.savez_compressed(out / "digits" / "test_split.npz", images=test_images, labels=test_labels)


if __name__ == "__main__":
    main()
