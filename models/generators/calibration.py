"""Random weights that behave like trained ones.

Plain random weights answer the same class whatever they see and let activations run away or die
out. So one pass over seeded inputs sets every batch-norm's statistics; where a layer has no
batch-norm behind it, its weights and bias are scaled instead so that each of its channels has mean
0.5 and deviation 1.
"""

import torch

BATCH_NORMS = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d)
# Above 0, so that ReLU passes most of a channel: at 0, VGG-19 amplifies rounding twice as much.
CHANNEL_MEAN = 0.5


def randomise_batch_norms(module, seed, last_batch_norm=lambda block: None):
    """Scale and shift as after training: with 1 and 0, half of fusion would go untested.

    `last_batch_norm(block)` is the batch-norm before the addition of a residual block, or None. It
    is small, as in trained networks. At full scale, 16 random blocks amplify rounding errors
    (ResNet-50, two orders of the same sums: 8e-5 of the largest output instead of 6e-6), and a
    comparison of two runtimes would say little.
    """
    generator = torch.Generator().manual_seed(seed)
    for layer in module.modules():
        if isinstance(layer, BATCH_NORMS):
            layer.weight.data.uniform_(0.6, 1.4, generator=generator)
            layer.bias.data.normal_(0.3, 0.2, generator=generator)
    for block in module.modules():
        last = last_batch_norm(block)
        if last is not None:
            last.weight.data.mul_(0.3)


def randomise_affine(module, seed):
    """Layer-norms' scales and shifts and all layers' biases, which start as ones and zeros."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in module.named_parameters():
        if parameter.dim() != 1:
            continue
        if name.endswith("bias"):
            parameter.data.normal_(0, 0.05, generator=generator)
        else:
            parameter.data.uniform_(0.7, 1.3, generator=generator)


def normalisable_layers(module):
    """The layers that have a bias, and so no batch-norm behind them."""
    kinds = (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Linear)
    return [layer for layer in module.modules()
            if isinstance(layer, kinds) and layer.bias is not None]


def normalise_output(layer, _, output):
    """Forward hook of a layer without batch-norm: sets mean and deviation of its `output`."""
    axes = [axis for axis in range(output.dim()) if axis != 1]
    mean = output.mean(axes)
    scale = 1 / output.std(axes).clamp_min(1e-3)
    layer.weight.data.mul_(scale.view(-1, *[1] * (layer.weight.dim() - 1)))
    layer.bias.data.sub_(mean).mul_(scale).add_(CHANNEL_MEAN)
    shape = [1, -1] + [1] * (output.dim() - 2)
    return (output - mean.view(shape)) * scale.view(shape) + CHANNEL_MEAN


def calibrate(network, count, seed):
    """One pass over `count` inputs sets the statistics of every layer, first to last."""
    inputs = [torch.from_numpy(array) for array in network.sample(count, seed).values()]
    hooks = [layer.register_forward_hook(normalise_output) for layer in network.calibrated]
    for layer in network.module.modules():
        if isinstance(layer, BATCH_NORMS):
            layer.momentum = None  # the plain mean over what it sees
            layer.train()
    with torch.no_grad():
        network.module(*inputs)
    for hook in hooks:
        hook.remove()
    network.module.eval()
