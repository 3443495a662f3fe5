"""Local only: every client trains its own network whenever it is drawn; nothing is averaged."""

from references.common import Result, Setting, descend, loaded, state_of


def run(setting: Setting) -> Result:
    personal = {}
    for t in range(setting.rounds):
        for k in setting.participants(t):
            model = loaded(setting.build(setting.classes), personal.get(k, setting.initial))
            descend(setting, model, setting.batches(t, k))
            personal[k] = state_of(model)
    return Result({}, personal)
