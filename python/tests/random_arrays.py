"""Random arrays for tests."""

import numpy as np


def random_array(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)
