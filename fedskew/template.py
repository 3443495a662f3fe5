"""The commented configuration that `fedskew new` writes."""

TEMPLATE = """\
# An experiment for fedskew. It runs as it is:  fedskew run experiment.toml
# Every setting with its meaning: docs/configuration.md. Override one: -s train.lr=0.1

name = "first"            # runs/first/<seed>/
seeds = [0, 1, 2]

[data]
name = "digits"           # fedskew datasets

[split]                   # who owns what
scheme = "labels"         # exactly per_client labels at each client; or dirichlet, shards, incomplete, natural, ...
clients = 20
per_client = 2

[model]
name = "mlp"              # fedskew models

[method]
preset = "fedlc"          # fedskew methods; join with +, e.g. fedlc+scaffold
# [method.CalibratedSoftmax]  # a part's own settings
# tau = 0.5

[train]
rounds = 50
participation = 0.5       # share of clients in a round
epochs = 3
batch = 16
lr = 0.05
momentum = 0.0
weight_decay = 0.0

[evaluate]
every = 1                 # rounds between evaluations of the global model
personal = 5              # ... and of every client's own model (the last ten rounds always are)

[engine]
name = "auto"             # serial, vectorised, pool
"""
