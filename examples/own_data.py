"""Your own arrays: features, labels, and which client each example belongs to."""

import numpy as np

from fedskew import Experiment, Results


def hospitals(patients: int = 600, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Six hospitals; each treats two of four diseases."""
    draw = np.random.default_rng(seed)
    hospital = draw.integers(6, size=patients)
    disease = (hospital + draw.integers(2, size=patients)) % 4
    centre = draw.normal(size=(4, 12))
    return centre[disease] + 0.7 * draw.normal(size=(patients, 12)), disease, hospital


def main(rounds: int = 15) -> Results:
    experiment = Experiment(data=hospitals(), model="mlp", method="fedrs", rounds=rounds)
    return experiment.fit(seeds=(0,))


if __name__ == "__main__":
    print(main())
