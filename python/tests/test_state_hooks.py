"""Hooks of state_dict and load_state_dict see and change the state, as in PyTorch."""

import copy
import importlib.util

import numpy as np
import pytest

import karez as kz
from karez import nn

X = np.ones((2, 3), np.float32)


def network(m=kz):
    return m.nn.Sequential(m.nn.Linear(3, 2), m.nn.Sequential(m.nn.Linear(2, 2), m.nn.ReLU()))


def test_post_hooks_change_the_state():
    net = network()

    def rename(module, state_dict, prefix, metadata):
        state_dict[prefix + "kernel"] = state_dict.pop(prefix + "weight") * 2

    expected = net[1][0].weight.numpy() * 2
    with net[1][0].register_state_dict_post_hook(rename):
        state = net.state_dict()
    assert list(state) == ["0.weight", "0.bias", "1.0.bias", "1.0.kernel"]
    np.testing.assert_array_equal(state["1.0.kernel"], expected)
    assert "1.0.weight" in net.state_dict()


def test_pre_hooks_run_before_the_values_are_read():
    net = network()

    def clear(module, prefix, keep_vars):
        assert prefix == "0." and keep_vars is False
        with kz.no_grad():
            module.bias.fill_(5)

    net[0].register_state_dict_pre_hook(clear)
    assert net.state_dict()["0.bias"].tolist() == [5, 5]


def test_load_pre_hooks_change_a_copy_of_the_state():
    net = network()
    state = {name.replace("1.0.weight", "1.0.kernel"): value + 1 for name, value in net.state_dict().items()}
    given = dict(state)

    def rename(module, state_dict, prefix, metadata, strict, missing_keys, unexpected_keys, error_msgs):
        assert strict and not missing_keys and not unexpected_keys and not error_msgs
        state_dict[prefix + "weight"] = state_dict.pop(prefix + "kernel")

    with pytest.raises(kz.NameError, match="lacks 1.0.weight and has unknown names 1.0.kernel"):
        net.load_state_dict(state)
    net[1][0].register_load_state_dict_pre_hook(rename)
    assert net.load_state_dict(state) == ([], [])
    assert state.keys() == given.keys()
    np.testing.assert_array_equal(net[1][0].weight.numpy(), given["1.0.kernel"])


def test_load_pre_hooks_report_errors_and_names():
    net = network()
    before = net.state_dict()

    def fail(module, state_dict, prefix, metadata, strict, missing_keys, unexpected_keys, error_msgs):
        error_msgs.append("planted")

    def miss(module, state_dict, prefix, metadata, strict, missing_keys, unexpected_keys, error_msgs):
        missing_keys.append(prefix + "another")

    with net[0].register_load_state_dict_pre_hook(fail), pytest.raises(kz.UserError, match="load_state_dict: planted"):
        net.load_state_dict({name: value + 1 for name, value in before.items()})
    with net[0].register_load_state_dict_pre_hook(miss):
        with pytest.raises(kz.NameError, match="lacks 0.another"):
            net.load_state_dict({name: value + 1 for name, value in before.items()})
        assert net.load_state_dict(before, strict=False).missing_keys == ["0.another"]
    for name, value in net.state_dict().items():
        np.testing.assert_array_equal(value, before[name])


def test_load_post_hooks_see_loaded_values_and_may_accept_missing_names():
    net, seen = network(), []
    state = {name: value + 1 for name, value in net.state_dict().items() if name != "0.bias"}

    def accept(module, incompatible):
        seen.append(module[0].weight.numpy())
        incompatible.missing_keys.remove("0.bias")

    net.register_load_state_dict_post_hook(accept)
    assert net.load_state_dict(state) == ([], [])
    np.testing.assert_array_equal(seen[0], state["0.weight"])
    with pytest.raises(kz.NameError, match="has unknown names other"):
        net.load_state_dict(state | {"other": X})


def test_hooks_of_state_cause_no_retrace_and_are_no_children():
    net, traces = network(), []
    f = kz.compile(lambda x: (traces.append(1), net(x))[1])
    f(X)
    handle = net.register_state_dict_post_hook(nn.Linear(3, 3))
    f(X)
    assert len(traces) == 1 and len(net.parameters()) == 4 and len(net.children()) == 2
    handle.remove()
    assert "_state_hooks" not in vars(net)


def test_a_copied_module_has_copies_of_the_hooks():
    net, calls = network(), []
    net[0].register_state_dict_post_hook(lambda module, *rest: calls.append(module))
    duplicate = copy.deepcopy(net)
    duplicate.state_dict()
    assert calls == [duplicate[0]]


def test_a_hook_must_be_a_function_that_returns_none():
    net = network()
    for name in ("state_dict_pre", "state_dict_post", "load_state_dict_pre", "load_state_dict_post"):
        with pytest.raises(kz.TypeError, match=f"register_{name}_hook: the hook must be a function, got 3"):
            getattr(net, f"register_{name}_hook")(3)
    net.register_state_dict_post_hook(lambda *arguments: {})
    with pytest.raises(kz.UserError, match="a state_dict_post hook of Sequential must return None"):
        net.state_dict()


def test_a_checkpoint_calls_no_hooks(tmp_path):
    net = network()
    net.register_state_dict_post_hook(lambda *arguments: pytest.fail("called"))
    net(kz.tensor(X)).numpy()
    kz.save(tmp_path / "net.safetensors")


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("shared", [False, True])
def test_calls_are_those_of_pytorch(shared):
    import torch

    def run(m):
        net, log = network(m), []
        if shared:
            net[1].again = net[1][0]
        modules = [("net", net), ("first", net[0]), ("second", net[1]), ("inner", net[1][0]), ("relu", net[1][1])]
        for name, module in modules:
            for kind in ("state_dict_pre", "state_dict_post", "load_state_dict_pre", "load_state_dict_post"):

                def hook(module, *rest, name=name, kind=kind):
                    texts = [repr(r) for r in rest if isinstance(r, (str, bool))]
                    lists = [list(r) for r in rest if isinstance(r, list)]
                    if kind == "load_state_dict_post":
                        lists = [list(rest[0].missing_keys), list(rest[0].unexpected_keys)]
                    log.append((kind, name, texts, lists))

                getattr(module, f"register_{kind}_hook")(hook)
        state = dict(net.state_dict())
        log.append("loaded")
        state.pop("0.bias")
        found = net.load_state_dict(state, strict=False)
        return log, list(found.missing_keys), list(found.unexpected_keys)

    (ours, *keys), (theirs, *expected_keys) = run(kz), run(torch)
    assert keys == expected_keys

    def of_kind(log, kind):
        return [entry for entry in log if entry[0] == kind]

    for kind in ("state_dict_pre", "state_dict_post", "load_state_dict_pre", "load_state_dict_post"):
        entries, expected = of_kind(ours, kind), of_kind(theirs, kind)
        if kind == "load_state_dict_pre":  # PyTorch calls them between loads, so its lists grow
            entries, expected = ([entry[:3] for entry in log] for log in (entries, expected))
        if kind == "load_state_dict_post":
            entries, expected = ([entry[:2] for entry in log] for log in (entries, expected))
        assert entries == expected, kind
