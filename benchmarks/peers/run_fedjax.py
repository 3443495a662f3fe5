"""A workload on fedjax: its federated_averaging on its jit backend; XLA uses all cores by itself."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import fedjax
import jax
import jax.numpy as jnp
import numpy as np
from fedjax.algorithms import fed_avg
from setting import Array, Setting, load, report


def dense(x: jnp.ndarray, weight: jnp.ndarray, bias: jnp.ndarray) -> jnp.ndarray:
    return x @ weight + bias


def convolution(x: jnp.ndarray, weight: jnp.ndarray, bias: jnp.ndarray) -> jnp.ndarray:
    """Images [N, H, W, C], then pooling and ReLU."""
    numbers = ("NHWC", "HWIO", "NHWC")
    x = jax.lax.conv_general_dilated(x, weight, (1, 1), "SAME", dimension_numbers=numbers) + bias
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return jax.nn.relu(x)


def apply(network: str, params: list[jnp.ndarray], x: jnp.ndarray) -> jnp.ndarray:
    """The logits."""
    if network == "fedabc-mlp":
        x = jax.nn.relu(dense(x.reshape(len(x), -1), *params[:2]))
        return dense(jax.nn.relu(dense(x, *params[2:4])), *params[4:])
    x = convolution(convolution(x, *params[:2]), *params[2:4])
    return dense(x.reshape(len(x), -1), *params[4:])


def taken(setting: Setting) -> list[Array]:
    """Torch's weights in the layout of jax; flattened images are [H, W, C] here."""
    made = []
    for value in setting.start:
        if value.ndim == 4:
            value = value.transpose(2, 3, 1, 0)
        elif value.ndim == 2:
            if setting.network != "fedabc-mlp":
                value = value.reshape(10, 32, 7, 7).transpose(0, 2, 3, 1).reshape(10, -1)
            value = value.T
        made.append(np.ascontiguousarray(value))
    return made


def given(setting: Setting, params: list[jnp.ndarray]) -> list[Array]:
    """The way back."""
    made = []
    for value in map(np.asarray, params):
        if value.ndim == 4:
            value = value.transpose(3, 2, 0, 1)
        elif value.ndim == 2:
            value = value.T
            if setting.network != "fedabc-mlp":
                value = value.reshape(10, 7, 7, 32).transpose(0, 3, 1, 2).reshape(10, -1)
        made.append(np.ascontiguousarray(value))
    return made


def gradient(setting: Setting) -> object:
    """Of the mean loss of a batch, with weight decay as the optimiser of torch adds it."""

    def loss(params: list[jnp.ndarray], batch: dict[str, jnp.ndarray], rng: object) -> jnp.ndarray:
        losses = fedjax.metrics.unreduced_cross_entropy_loss(
            batch["y"], apply(setting.network, params, batch["x"])
        )
        squares = sum(jnp.sum(value**2) for value in params) if setting.decay else 0.0
        return jnp.mean(losses) + 0.5 * setting.decay * squares

    return jax.grad(loss)


def main(folder: Path) -> None:
    """All rounds."""
    setting = load(folder)
    images = np.ascontiguousarray(np.moveaxis(setting.x, 1, 3))
    data = [fedjax.ClientDataset({"x": images[own], "y": setting.y[own]}) for own in setting.clients]
    algorithm = fed_avg.federated_averaging(
        gradient(setting),
        fedjax.optimizers.sgd(setting.lr, setting.momentum or None),
        fedjax.optimizers.sgd(1.0),
        fedjax.ShuffleRepeatBatchHParams(setting.batch, num_epochs=setting.epochs, seed=0),
    )
    state = algorithm.init([jnp.asarray(value) for value in taken(setting)])
    seconds, key = [], jax.random.PRNGKey(0)
    for drawn in setting.participants:
        start = time.perf_counter()
        keys = jax.random.split(key, len(drawn))
        state, _ = algorithm.apply(state, [(k, data[k], keys[i]) for i, k in enumerate(drawn)])
        jax.block_until_ready(state.params)
        seconds.append(time.perf_counter() - start)
    passes = [setting.passes(drawn) for drawn in setting.participants]
    report(folder, seconds, passes, given(setting, state.params))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
