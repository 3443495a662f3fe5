"""MAP: half the steps with FedRS's loss for the upload, half with FedPHP's for the personal model."""

from references.common import Result, Setting, average, descend, loaded, state_of
from references.fedphp import inherit, taught
from references.fedrs import restricted


def run(
    setting: Setting,
    uploads_stage_2: bool = False,
    first_lesson: bool = False,
    count_first: bool = False,
    backwards: bool = False,
) -> Result:
    server, heirs = setting.initial, {}
    for t in range(setting.rounds):
        chosen, uploads = setting.participants(t), []
        for k in chosen:
            model = loaded(setting.build(setting.classes), server)
            half = (setting.steps(k) + 1) // 2
            descend(setting, model, setting.batches(t, k, 0, half), restricted(setting.counts(k), 0.5))
            upload = state_of(model)
            before = heirs.get(k)
            teacher = before.model if before else setting.initial if first_lesson else None
            descend(
                setting, model, setting.batches(t, k, half), taught(setting, teacher, "kd", 0.1, backwards)
            )
            heirs[k] = inherit(setting, before, state_of(model), count_first)
            uploads.append(state_of(model) if uploads_stage_2 else upload)
        server = average(uploads, [1.0] * len(chosen))
    return Result(server, {k: heir.model for k, heir in heirs.items()})
