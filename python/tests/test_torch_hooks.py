"""Hooks of modules are called in PyTorch's order, and change results and gradients as in PyTorch."""

import importlib.util
import os
import subprocess
import sys

import pytest

import karez as kz

FORWARD = """
import copy
import numpy as np, torch
import karez as kz

X = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
LAYERS = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
WEIGHTS = {k: v.numpy() for k, v in LAYERS.state_dict().items()}

def run(m, log):
    net = m.nn.Sequential(m.nn.Linear(3, 4), m.nn.Linear(4, 2))
    net.load_state_dict({k: m.tensor(v) if m is torch else v for k, v in WEIGHTS.items()})
    x = m.tensor(X)
    out = [net(x)]
    def hook(name, f):
        def call(module, args, *rest):
            log.append((name, type(module).__name__, len(args), [type(r).__name__ == "dict" for r in rest]))
            return f(args, *rest)
        return call
    a = net[0].register_forward_pre_hook(hook("a", lambda args: args[0] * 2))
    b = net[0].register_forward_hook(hook("b", lambda args, y: y + args[0].sum()))
    c = net.register_forward_hook(hook("c", lambda args, kwargs, y: y * 3), with_kwargs=True)
    d = net[1].register_forward_hook(hook("d", lambda args, y: None), prepend=True)
    e = net[0].register_forward_hook(hook("e", lambda args, y: y.abs()), prepend=True)
    out.append(net(x))
    duplicate = copy.deepcopy(net)
    a.remove(); c.remove()
    out += [net(x), duplicate(x)]
    with net[1].register_forward_pre_hook(hook("f", lambda args, kwargs: ((args[0] - 1,), kwargs)), with_kwargs=True):
        out.append(net(x))
    for h in (b, d, e):
        h.remove()
    out.append(net(x))
    state = {"removed": 0}
    def once(module, args, y):
        log.append("once"); handle.remove(); return y * 7
    handle = net.register_forward_hook(once)
    out += [net(x), net(x)]
    return [o.detach().numpy() for o in out]

logs = [], []
for ours, theirs in zip(run(kz, logs[0]), run(torch, logs[1])):
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
assert logs[0] == logs[1], logs
print("equal", len(logs[0]))
"""

BACKWARD = """
import numpy as np, torch
import karez as kz

rng = np.random.default_rng(0)
X = rng.normal(size=(5, 3)).astype(np.float32)
LAYERS = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 4), torch.nn.Linear(4, 2))
WEIGHTS = {k: v.numpy() for k, v in LAYERS.state_dict().items()}


def tensor(m, x, grad=False):
    return m.tensor(x) if m is kz else m.tensor(x, requires_grad=grad)


def network(m):
    net = m.nn.Sequential(m.nn.Linear(3, 4), m.nn.Linear(4, 4), m.nn.Linear(4, 2))
    net.load_state_dict({k: v if m is kz else tensor(m, v) for k, v in WEIGHTS.items()})
    return net


def forward(net, x):  # the middle layer is called twice, each time with a path around it
    h = net[0](x)
    h = net[1](h) + h
    h = net[1](h) * h
    return net[2](h)


def observe(net, log):
    net[1].register_full_backward_hook(lambda mod, gi, go: log.extend([*gi, *go]))
    net.register_full_backward_hook(lambda mod, gi, go: None)
    net[2].register_full_backward_pre_hook(lambda mod, go: log.extend(go))


def replace(net, log):
    net[1].register_full_backward_hook(lambda mod, gi, go: (gi[0] * 2 + go[0] * 0.5,))
    net[1].register_full_backward_hook(lambda mod, gi, go: log.extend([*gi, *go]))
    net[2].register_full_backward_pre_hook(lambda mod, go: (go[0].clamp(-0.5, 0.5),))
    net[2].register_full_backward_pre_hook(lambda mod, go: (go[0] * 3,), prepend=True)


def with_forward_hooks(net, log):
    net[1].register_full_backward_hook(lambda mod, gi, go: (gi[0] * 0,))
    net[1].register_forward_hook(lambda mod, a, o: o * 2)
    net[1].register_forward_pre_hook(lambda mod, a: a[0] * 3)
    net[0].register_full_backward_hook(lambda mod, gi, go: log.append(go[0]))


def run(m, setup):
    net, log = network(m), []
    setup(net, log)

    def body(x):
        loss = (forward(net, x) ** 2).sum()
        loss.backward()
        gradients = [*(p.grad for p in net.parameters()), *log]
        log.clear()
        return gradients

    results = kz.compile(body)(X) if m is kz else body(tensor(m, X, True))
    return [result.numpy() for result in results]


def second_derivatives(m):
    net = network(m)
    net[1].register_full_backward_hook(lambda mod, gi, go: (gi[0] * 2,))

    def body(x):
        loss = (forward(net, x) ** 2).sum()
        if m is kz:
            return kz.grad((kz.grad(loss, [x])[0] ** 2).sum(), net.parameters())
        (g,) = torch.autograd.grad(loss, [x], create_graph=True)
        return torch.autograd.grad((g**2).sum(), list(net.parameters()))

    results = kz.compile(body)(X) if m is kz else body(tensor(m, X, True))
    return [result.numpy() for result in results]


def several(m):
    class Two(m.nn.Module):
        def forward(self, x, y, n):
            return x * y, x + n

    net = Two()
    net.register_full_backward_hook(lambda mod, gi, go: (gi[0] * 2, gi[1] * 3, None))
    net.register_full_backward_pre_hook(lambda mod, go: (go[0] * 5, go[1] * 7))

    def body(x, y):
        a, b = net(x, y, 2.5)
        loss = (a * a).sum() + (b**3).sum()
        return kz.grad(loss, [x, y]) if m is kz else torch.autograd.grad(loss, [x, y])

    results = kz.compile(body)(X, X + 1) if m is kz else body(tensor(m, X, True), tensor(m, X + 1, True))
    return [result.numpy() for result in results]


for case in (
    lambda m: run(m, observe),
    lambda m: run(m, replace),
    lambda m: run(m, with_forward_hooks),
    second_derivatives,
    several,
):
    ours, theirs = case(kz), case(torch)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * np.abs(b).max())
print("equal")
"""


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("kind", ["forward", "backward"])
def test_hooks_equal_those_of_pytorch(kind):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", {"forward": FORWARD, "backward": BACKWARD}[kind]],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"PYTHONPATH": os.path.dirname(kz.__path__[0])},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("equal"), done.stdout
