"""Any torch.nn.Module as a Model: pure functions of a flat tree."""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fedskew.errors import ConfigError
from fedskew.kernels.shortcut import Shortcut
from fedskew.tree import Tree
from fedskew.values import Model, Out

_RANDOM = (nn.modules.dropout._DropoutNd, nn.RReLU)


def from_module(build: Callable[[], nn.Module], head: Sequence[str] | None = None) -> Model:
    """The module that `build` makes; the head is the linear layer declared last, or the modules named here."""
    # On the meta device a missing entry fails instead of falling back on the module's own weights.
    with torch.device("meta"):
        skeleton = build()
    modules = dict(skeleton.named_modules())
    chosen = list(head) if head else [_last_linear(modules)]
    for name in chosen:
        if name not in modules:
            raise ConfigError(
                f"head module '{name}' is not in the network. Modules: {', '.join(filter(None, modules))}."
            )
    layers = tuple(_layers(modules))
    entry, leaf = modules[chosen[0]], _linear(modules[chosen[-1]], last=True)
    buffers = frozenset(name for name, _ in skeleton.named_buffers())
    names = frozenset(name for layer in layers for name in layer)
    captured: list[Tensor] = []
    entry.register_forward_pre_hook(lambda _, inputs: captured.append(inputs[0]))

    def init(seed: int) -> Tree:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            made = build()
        return {**{n: p.detach() for n, p in made.named_parameters()}, **dict(made.named_buffers())}

    shortcut = Shortcut(skeleton, chosen[0])

    def forward(params: Tree, x: Tensor, train: bool) -> Out:
        fast = shortcut(params, x, train)
        if fast is not None:
            return fast
        fresh = {name: params[name].clone() if train else params[name] for name in buffers}
        if skeleton.training != train:
            skeleton.train(train)
        captured.clear()
        entries = {**params, **fresh}
        if entries.keys() != names:
            raise KeyError(f"entries that the network has not, or lacks: {sorted(entries.keys() ^ names)}")
        # Checked here: what `strict` does lists all modules in every call.
        logits = functional_call(skeleton, entries, (x,), tie_weights=False)
        return Out(logits, captured[0].flatten(1), fresh)

    return Model(
        init=init,
        forward=forward,
        layers=layers,
        head=tuple(n for layer in layers for n in layer if _inside(n, chosen)),
        buffers=buffers,
        width=_linear(entry, last=False).in_features,
        classes=leaf.out_features,
        draws=any(isinstance(module, _RANDOM) for module in modules.values()),
    )


def _layers(modules: dict[str, nn.Module]) -> Iterator[tuple[str, ...]]:
    for name, module in modules.items():
        own = [n for n, _ in module.named_parameters(recurse=False)]
        own += [n for n, _ in module.named_buffers(recurse=False)]
        if own:
            yield tuple(f"{name}.{n}" if name else n for n in own)


def _inside(name: str, chosen: Sequence[str]) -> bool:
    return any(not module or name.startswith(f"{module}.") for module in chosen)


def _last_linear(modules: dict[str, nn.Module]) -> str:
    linear = [name for name, module in modules.items() if isinstance(module, nn.Linear)]
    if not linear:
        raise ConfigError("the network has no linear layer that could be its head.")
    return linear[-1]


def _linear(module: nn.Module, last: bool) -> nn.Linear:
    found = [m for m in module.modules() if isinstance(m, nn.Linear)]
    if not found:
        raise ConfigError(f"the head module {module} holds no linear layer.")
    return found[-1 if last else 0]


def factory(build: Callable[[int], nn.Module], head: Sequence[str] | None = None) -> Callable[[int], Model]:
    """From a number of outputs to the Model of the module that `build` makes for it."""

    def made(outputs: int) -> Model:
        found = from_module(lambda: build(outputs), head)
        if found.classes != outputs:
            raise ConfigError(
                f"the network's head ends in {found.classes} outputs, but {outputs} are asked for: build it with "
                "the number that the function is given. Where the head is not the linear layer declared last, "
                "name its modules: Experiment(head=('...',))."
            )
        return found

    return made
