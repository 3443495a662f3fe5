"""Every network by name: which class builds it, with which options, and what inputs it takes."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, Protocol

from fedskew.errors import ConfigError, unknown

if TYPE_CHECKING:
    from torch import nn

    from fedskew.values import Model

Shape = tuple[int, ...]
Pattern = tuple[int | None, ...]  # None stands for any size

ANYTHING: Pattern = ()
SIGNAL: Pattern = (None, None)
IMAGE: Pattern = (None, None, None)
PIXELS_28: Pattern = (None, 28, 28)
PIXELS_32: Pattern = (None, 32, 32)
MFCC: Pattern = (None, 50, 16)


class Architecture(Protocol):
    """Options of a network that know how to build it."""

    def module(self, shape: Shape, outputs: int) -> "nn.Module": ...


class Entry(NamedTuple):
    """Which class builds a network, what the network is, what it takes and how the class is set."""

    module: str
    cls: str
    about: str
    takes: Pattern = ANYTHING
    preset: Mapping[str, object] = {}

    def fits(self, shape: Shape) -> bool:
        """Whether one example of this shape can be an input."""
        if self.takes == ANYTHING:
            return True
        return len(shape) == len(self.takes) and all(
            want in (None, size) for want, size in zip(self.takes, shape, strict=True)
        )


_MAP: dict[str, object] = {"bias": False, "init": "kaiming"}
_FEDLC: dict[str, object] = {"stages": ((128,), (128,), (128,)), "kernel": 3, "batch_norm": True}
_KWS: dict[str, object] = {"stages": ((16,), (32,), (64,)), "kernel": 3, "padding": 1, "pool": (1, 2)}

# Modules are named, not imported: listing the names must not wait for torch.
MODELS: dict[str, Entry] = {
    "logistic": Entry("mlp", "MLP", "multinomial logistic regression", preset={"hidden": ()}),
    "mlp": Entry("mlp", "MLP", "one hidden layer of 64, for digits"),
    "fedabc-mlp": Entry("mlp", "MLP", "FedABC's MLP 784-260-200-C", preset={"hidden": (260, 200)}),
    "fedabc-cnn": Entry(
        "convnets",
        "ConvNet",
        "FedABC's CNN for CIFAR, FC 1600-120-64-C",
        PIXELS_32,
        {"stages": ((64,), (64,)), "padding": 0, "hidden": (120, 64)},
    ),
    "fedlc-cnn": Entry(
        "convnets",
        "ConvNet",
        "FedLC's batch-norm CNN for SVHN and CIFAR",
        PIXELS_32,
        {**_FEDLC, "padding": 0},
    ),
    "fedlc-cnn-28": Entry(
        "convnets", "ConvNet", "FedLC's CNN with padding 1 for 28x28", PIXELS_28, {**_FEDLC, "padding": 1}
    ),
    "fedova-cnn": Entry(
        "convnets", "ConvNet", "FedOVA's CNN for Fashion-MNIST", PIXELS_28, {"hidden": (512,)}
    ),
    "fedova-vgg11": Entry("vgg", "VGG", "FedOVA's VGG11 for CIFAR", PIXELS_32),
    "fedova-kws": Entry(
        "convnets", "ConvNet", "FedOVA's CNN for spoken words", MFCC, {**_KWS, "hidden": (256,)}
    ),
    "bench-cnn": Entry("convnets", "ConvNet", "two convolutions, FC 1568-C: for speed", PIXELS_28),
    "map-mlpnet": Entry(
        "mlp", "MLP", "MAP's MLPNet 784-1024-1024-128-C", preset={**_MAP, "hidden": (1024, 1024, 128)}
    ),
    "map-lenet": Entry(
        "convnets", "ConvNet", "MAP's LeNet", PIXELS_28, {**_MAP, "stages": ((16,), (16,)), "padding": 0}
    ),
    "map-tfcnn": Entry(
        "convnets",
        "ConvNet",
        "MAP's TFCNN for CIFAR",
        PIXELS_32,
        {**_MAP, "stages": ((32,), (64,), (64,)), "kernel": 3, "padding": 1},
    ),
    "map-vgg8": Entry("vgg", "VGG", "MAP's VGG8", PIXELS_32, {**_MAP, "depth": 8}),
    "map-vgg8-bn": Entry(
        "vgg", "VGG", "MAP's VGG8 with batch-norm", PIXELS_32, {**_MAP, "depth": 8, "batch_norm": True}
    ),
    "map-vgg11": Entry("vgg", "VGG", "MAP's VGG11", PIXELS_32, {**_MAP, "depth": 11}),
    "vgg11-bn": Entry(
        "vgg", "VGG", "VGG11 with batch-norm (MAP)", PIXELS_32, {**_MAP, "depth": 11, "batch_norm": True}
    ),
    "vgg16-bn": Entry(
        "vgg", "VGG", "VGG16 with batch-norm (MAP)", PIXELS_32, {**_MAP, "depth": 16, "batch_norm": True}
    ),
    "resnet20": Entry("resnet", "ResNet", "ResNet-20 (MAP)", IMAGE, {**_MAP, "depth": 20}),
    "resnet56": Entry("resnet", "ResNet", "ResNet-56 (MAP)", IMAGE, {**_MAP, "depth": 56}),
    "resnet32": Entry(
        "resnet",
        "ResNet",
        "ResNet-32, two-layer head (GRP-FED)",
        IMAGE,
        {"depth": 32, "two_layer_head": True},
    ),
    "resnet18": Entry("resnet", "ResNet18", "ResNet-18 (FedLC's ImageNet subset)", IMAGE),
    "ecg-resnet": Entry("ecg", "ECGResNet", "GRP-FED's residual network for heartbeats", SIGNAL),
    "femnist-cnn": Entry(
        "convnets",
        "ConvNet",
        "LEAF's CNN for FEMNIST",
        PIXELS_28,
        {"stages": ((32,), (64,)), "hidden": (2048,)},
    ),
    "lenet-2d": Entry(
        "convnets",
        "ConvNet",
        "LeNet with two features, to be drawn (MAP)",
        PIXELS_28,
        {"stages": ((16,), (16,)), "padding": 0, "hidden": (120, 2), "bias": False, "rectified": False},
    ),
}


def names() -> tuple[str, ...]:
    """The names `network` and `model` accept."""
    return tuple(MODELS)


def network(name: str, options: Mapping[str, object] | None = None) -> Architecture:
    """The network `name` with its preset and then `options` filled in."""
    from fedskew.ranges import built

    if name not in MODELS:
        raise ConfigError(unknown("model", name, MODELS))
    entry = MODELS[name]
    cls = getattr(import_module(f"fedskew.models.{entry.module}"), entry.cls)
    found: Architecture = built(cls, {**entry.preset, **(options or {})}, f"model {name}")
    return found


def model(
    name: str,
    options: Mapping[str, object] | None,
    shape: Sequence[int],
    head: Sequence[str] = ("head",),
) -> "Callable[[int], Model]":
    """From a number of outputs to the network `name` for examples of this shape."""
    from fedskew.models.module import factory

    built, size = network(name, options), tuple(shape)
    if not MODELS[name].fits(size):
        fitting = [other for other, entry in MODELS.items() if entry.fits(size)]
        raise ConfigError(
            f"model {name} takes inputs {_written(MODELS[name].takes)}, but the data are {_written(size)}. "
            f"Models that fit: {', '.join(fitting)}."
        )
    return factory(partial(built.module, size), head)


def _written(shape: Pattern) -> str:
    return "x".join("any" if size is None else str(size) for size in shape)
