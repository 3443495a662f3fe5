"""FedAvg: every participant trains the received network, the server takes the mean weighted by n_k."""

from references.common import Result, Setting, cross_entropy, fedavg_with


def run(setting: Setting, weight: str = "samples") -> Result:
    weigh = setting.size if weight == "samples" else lambda k: 1.0
    return fedavg_with(setting, lambda k: cross_entropy, weigh)
