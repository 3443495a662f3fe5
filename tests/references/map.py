"""MAP: half the steps with FedRS's loss for the upload, half with FedPHP's for the personal model."""

import torch
from torch import nn

from references.common import Batches, Result, Setting, Tree, average, descend, is_head, loaded, state_of
from references.fedphp import inherit, taught
from references.fedrs import restricted


def run(
    setting: Setting,
    uploads_stage_2: bool = False,
    first_lesson: bool = False,
    count_first: bool = False,
    backwards: bool = False,
    own_head: bool = False,
) -> Result:
    """With `own_head` the last layer never leaves the client, which keeps it as the second stage left it."""
    server, heirs, heads = setting.initial, {}, {}
    private = {n for n in server if own_head and is_head(setting.network(), n)}
    first = {n: setting.initial[n] for n in private}
    for t in range(setting.rounds):
        chosen, uploads = setting.participants(t), []
        for k in chosen:
            model = loaded(setting.build(setting.classes), {**server, **heads.get(k, first)})
            half = (setting.steps(k) + 1) // 2
            descend(setting, model, setting.batches(t, k, 0, half), restricted(setting.counts(k), 0.5))
            upload = state_of(model)
            before = heirs.get(k)
            teacher = before.model if before else setting.initial if first_lesson else None
            lesson = taught(setting, teacher, "kd", 0.1, backwards)
            descend(setting, model, setting.batches(t, k, half), lesson)
            heirs[k] = inherit(setting, before, state_of(model), count_first)
            uploads.append(state_of(model) if uploads_stage_2 else upload)
            heads[k] = {n: state_of(model)[n] for n in private}
        server = average(uploads, [1.0] * len(chosen))
    return Result(
        {n: v for n, v in server.items() if n not in private}, {k: heir.model for k, heir in heirs.items()}
    )


def released(setting: Setting, refresh: bool = True) -> Result:
    """The authors' code: all steps, then a tenth (at least 5) at a fifth of the rate; n-weighted."""
    server, heirs = setting.initial, {}
    for t in range(setting.rounds):
        chosen, uploads = setting.participants(t), []
        for k in chosen:
            model, batches = loaded(setting.build(setting.classes), server), setting.batches(t, k)
            descend(setting, model, batches, restricted(setting.counts(k), 0.5))
            uploads.append(state_of(model))
            again = [i % setting.steps(k) for i in range(max(setting.steps(k) // 10, 5))]
            more = [batch for i in again for batch in setting.batches(t, k, i, i + 1)]
            before = heirs.get(k)
            lesson = taught(setting, before.model if before else None, "author", 0.1)
            descend(setting, model, more, lesson, slower=0.2)
            participations = max(int(setting.ratio * setting.rounds), 1)
            heirs[k] = inherit(setting, before, state_of(model), most=0.9, participations=participations)
            if refresh:
                heirs[k] = heirs[k]._replace(model=measured(setting, heirs[k].model, setting.home(k)))
        server = average(uploads, [setting.size(k) for k in chosen])
    return Result(server, {k: heir.model for k, heir in heirs.items()})


def measured(setting: Setting, state: Tree, batches: Batches) -> Tree:
    """The network with the mean over the batches, weighted by examples, of what each BatchNorm layer sees."""
    model = loaded(setting.build(setting.classes), state)
    layers = {n: m for n, m in model.named_modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)}
    seen: dict[str, list[tuple[torch.Tensor, torch.Tensor]]] = {name: [] for name in layers}
    for name, layer in layers.items():

        def watch(_: nn.Module, inputs: tuple[torch.Tensor, ...], name: str = name) -> None:
            channels = inputs[0].detach().transpose(0, 1).flatten(1)
            seen[name].append((channels.mean(1), channels.var(1)))

        layer.register_forward_pre_hook(watch)
    for x, _ in batches:
        model(x)
    share = [len(y) / sum(len(y) for _, y in batches) for _, y in batches]
    fresh = dict(state)
    for name, found in seen.items():
        fresh[f"{name}.running_mean"] = sum(s * mean for s, (mean, _) in zip(share, found, strict=True))
        fresh[f"{name}.running_var"] = sum(s * var for s, (_, var) in zip(share, found, strict=True))
    return fresh
