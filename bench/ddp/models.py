"""The networks that the training benchmark trains, in plain PyTorch.

Image classifiers of 1000 classes as published: VGG16 (arXiv 1409.1556), ResNet50 and ResNet152
(arXiv 1512.03385, with the stride in the 3x3 convolution, as is usual since), DenseNet201
(arXiv 1608.06993). Sizes of messages depend on their parameters, so these are the published ones.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import nn

CLASSES = 1000


def vgg(widths: tuple[tuple[int, ...], ...]) -> nn.Module:
    """Stages of 3x3 convolutions, halved after each, and three linear layers."""
    layers: list[nn.Module] = []
    channels = 3
    for stage in widths:
        for width in stage:
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
            channels = width
        layers.append(nn.MaxPool2d(2))
    layers += [nn.AdaptiveAvgPool2d(7), nn.Flatten(), nn.Linear(channels * 49, 4096)]
    layers += [nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(4096, 4096)]
    layers += [nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(4096, CLASSES)]
    return nn.Sequential(*layers)


def normalized(inputs: int, outputs: int, edge: int, stride: int = 1) -> nn.Sequential:
    """A convolution without bias and the normalization that has one."""
    convolution = nn.Conv2d(inputs, outputs, edge, stride, padding=edge // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs))


class Bottleneck(nn.Module):
    """Three convolutions next to a shortcut."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        """Have 4 * width channels at the end."""
        super().__init__()
        outputs = 4 * width
        self.residual = nn.Sequential(
            normalized(inputs, width, 1),
            nn.ReLU(inplace=True),
            normalized(width, width, 3, stride),
            nn.ReLU(inplace=True),
            normalized(width, outputs, 1),
        )
        keeps_shape = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if keeps_shape else normalized(inputs, outputs, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute."""
        return torch.relu(self.residual(x) + self.shortcut(x))


def beginning() -> list[nn.Module]:
    """What ResNet and DenseNet begin with: a quarter of the edge, 64 channels."""
    return [normalized(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, padding=1)]


def ending(channels: int) -> list[nn.Module]:
    """What they end with."""
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES)]


def resnet(depths: tuple[int, ...]) -> nn.Module:
    """Stages of bottlenecks, each of twice the width and half the edge of the one before."""
    layers = beginning()
    channels = 64
    for stage, depth in enumerate(depths):
        width = 64 << stage
        for block in range(depth):
            stride = 2 if stage > 0 and block == 0 else 1
            layers.append(Bottleneck(channels, width, stride))
            channels = 4 * width
    return nn.Sequential(*layers, *ending(channels))


class DenseLayer(nn.Module):
    """Adds channels that are computed from all before."""

    def __init__(self, inputs: int, growth: int) -> None:
        """Have `growth` channels more at the end."""
        super().__init__()
        width = 4 * growth
        self.grown = nn.Sequential(
            nn.BatchNorm2d(inputs),
            nn.ReLU(inplace=True),
            normalized(inputs, width, 1),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, growth, 3, padding=1, bias=False),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute."""
        return torch.cat([x, self.grown(x)], dim=1)


def densenet(depths: tuple[int, ...], growth: int) -> nn.Module:
    """Blocks of dense layers; between them channels and edge are halved."""
    layers = beginning()
    channels = 64
    for block, depth in enumerate(depths):
        if block > 0:
            layers += [nn.BatchNorm2d(channels), nn.ReLU(inplace=True)]
            layers += [nn.Conv2d(channels, channels // 2, 1, bias=False), nn.AvgPool2d(2)]
            channels //= 2
        for _ in range(depth):
            layers.append(DenseLayer(channels, growth))
            channels += growth
    return nn.Sequential(
        *layers, nn.BatchNorm2d(channels), nn.ReLU(inplace=True), *ending(channels)
    )


MODELS: dict[str, Callable[[], nn.Module]] = {
    "vgg16": partial(vgg, ((64, 64), (128, 128), (256,) * 3, (512,) * 3, (512,) * 3)),
    "resnet50": partial(resnet, (3, 4, 6, 3)),
    "resnet152": partial(resnet, (3, 8, 36, 3)),
    "densenet201": partial(densenet, (6, 12, 48, 32), 32),
}
