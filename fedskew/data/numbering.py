"""Names to numbers: classes and clients as people write them, as tensors need them."""

from collections.abc import Sequence

import numpy as np

from fedskew.data.dataset import Indices


def numbered(names: Sequence[str]) -> tuple[Indices, tuple[str, ...]]:
    """The position of every name in the sorted list of names (whole numbers by value), and that list."""
    distinct = set(names)
    whole = all(name.removeprefix("-").isdecimal() for name in distinct)
    order = tuple(sorted(distinct, key=(lambda name: (int(name), name)) if whole else None))
    place = {name: k for k, name in enumerate(order)}
    return np.array([place[name] for name in names], np.int64), order
