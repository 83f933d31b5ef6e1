"""A small network and its data, for tests of compiled functions."""

import numpy as np

from karez import B, F, P, S, nn

X = np.random.default_rng(0).normal(size=(13, 6)).astype(np.float32)


Y = np.random.default_rng(1).integers(0, 4, 13)


class Net(nn.Module):
    def __init__(self):
        self.fc1, self.fc2, self.drop = nn.Linear(6, 8), nn.Linear(8, 4), nn.Dropout(0.25)

    def forward(self, x):
        return self.fc2(self.drop(F.tanh(self.fc1(x))))


RULES = {"fc1": P("model"), "fc2.weight": [B, S(1)]}
