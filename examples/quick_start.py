"""Ten lines: three methods on digits, two labels a client, and the table."""

from fedskew import Experiment, Labels, Results


def main(rounds: int = 20, seeds: range = range(2)) -> Results:
    base = Experiment(data="digits", split=Labels(clients=20, per_client=2), model="mlp", rounds=rounds)
    found = Results(())
    for method in ("fedavg", "fedlc", "fedova"):
        found += base.using(method).fit(seeds)
    return found


if __name__ == "__main__":
    print(main())
