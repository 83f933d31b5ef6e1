"""Checkpoints: loads into one of several models, damaged files, files that killed saves leave, and other tools."""

import copy
import gc
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from test_debugging import ranks

import karez as kz
from karez import F, nn

X = np.random.default_rng(0).normal(size=(8, 3, 4, 4)).astype(np.float32)
Y = np.arange(8) % 4


class Net(nn.Module):
    def __init__(self, width=6):
        self.conv, self.bn, self.fc = (
            nn.Conv2d(3, width, 3, padding=1),
            nn.BatchNorm2d(width),
            nn.Linear(width * 16, 4),
        )

    def forward(self, x):
        return self.fc(F.relu(self.bn(self.conv(x))).flatten(1))


def trained(path):
    net = Net()
    opt = kz.optim.Adam(net.parameters(), lr=1e-2)

    @kz.compile
    def step(x, y):
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        return loss

    for _ in range(4):
        step(X, Y)
    kz.save(path, position=17, notes={"epoch": "1"})
    return net


def answers(net):
    net.eval()
    return kz.compile(lambda x: net(x))(X).numpy()


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "best.safetensors"
    want = answers(trained(path))
    kz.reset()
    gc.collect()  # a load requires values for all live parameters
    return path, want


def test_a_module_is_loaded_with_its_running_statistics(saved):
    path, want = saved
    for select in (lambda net: net, lambda net: [net], lambda net: [net.conv, net.bn, net.fc]):
        net = Net()
        net.parameters()
        with pytest.raises(kz.NameError, match=r"extra=True skips all of them"):
            kz.load(path, select(net))
        kz.load(path, select(net), extra=True)
        assert np.array_equal(answers(net), want)
        kz.reset()


def test_hints_name_only_the_loaded_model(saved):
    path, want = saved
    net = Net()
    for extra in (False, True):
        with pytest.raises(
            kz.NameError, match=r"bn\.num_batches_tracked, bn\.running_mean, bn\.running_var would not be loaded, "
        ) as caught:
            kz.load(path, net.parameters(), extra=extra)
        assert "kz.load(path, net, extra=True) loads a module's running statistics with its parameters" in str(
            caught.value
        )
        assert "{" not in str(caught.value), "the hint must use Python syntax"
    kz.load(path, net, extra=True)  # as the hint says
    assert np.array_equal(answers(net), want)
    kz.load(path, net.fc.parameters(), extra=True)  # a module without buffers
    with pytest.raises(kz.UserError, match="the modules have neither parameters nor buffers"):
        kz.load(path, nn.ReLU())


def test_a_wrong_name_or_shape_is_reported_at_the_load(saved):
    path, _ = saved
    wide_net = Net(8)
    wide_net.parameters()
    with pytest.raises(kz.ShapeError, match=r"parameter '\S+' is f32\[\d"):
        kz.load(path)
    del wide_net
    gc.collect()

    class Renamed(Net):
        def __init__(self):
            super().__init__()
            self.last = self.fc
            del self.fc

        def forward(self, x):
            return self.last(F.relu(self.bn(self.conv(x))).flatten(1))

    net = Renamed()
    net.parameters()
    with pytest.raises(
        kz.NameError,
        match=r"the file has no tensor for last\.\w+, but has a tensor fc\.\w+ of the same shape, for which there is ",
    ) as caught:
        kz.load(path)
    assert "names={theirs: ours} maps names; with missing=True missing parameters" in str(caught.value)
    assert kz.load(path, names={"fc.*": "last.*", "*.*.fc.*": ""}) == (17, {"epoch": "1"})
    kz.compile(lambda x: net(x))(X).wait()


def test_an_error_at_the_first_use_of_a_parameter_suggests_python_calls(saved):
    path, _ = saved
    kz.load(path)
    late_layer = nn.Linear(3, 3)
    late_layer.parameters()
    with pytest.raises(kz.NameError, match=r"kz\.load\(path, net\) loads only a model's weights; with missing=True"):
        kz.compile(lambda: late_layer.weight * 1)()


def test_damaged_files_are_errors(saved, tmp_path):
    path, _ = saved
    content, draw = path.read_bytes(), random.Random(7)
    header = 8 + int.from_bytes(content[:8], "little")
    for i in range(200):
        damaged = bytearray(content)
        at = draw.randrange(header if i % 2 else len(content))
        damaged[at] ^= 1 << draw.randrange(8)
        if i % 10 == 0:  # change one digit of the header
            digits = [k for k in range(8, header) if chr(content[k]).isdigit()]
            damaged = bytearray(content)
            at = draw.choice(digits)
            damaged[at] = ord(str((int(chr(content[at])) + 1) % 10))
        (tmp_path / "damaged").write_bytes(damaged)
        with pytest.raises(kz.DataError):
            kz.load(tmp_path / "damaged")
    (tmp_path / "cut").write_bytes(content[:-1])
    with pytest.raises(kz.DataError):
        kz.load(tmp_path / "cut")
    assert kz.load(path) == (17, {"epoch": "1"})


def test_other_tools_read_and_write_the_files(saved, tmp_path):
    path, want = saved
    files = pytest.importorskip("safetensors.numpy")
    tensors = files.load_file(path)
    assert tensors["bn.running_mean"].shape == (6,) and tensors["adam.m.fc.weight"].dtype == np.float32
    net = Net()
    other = tmp_path / "other.safetensors"
    files.save_file(tensors, other)  # the file has no checksums
    kz.load(other, net, extra=True)
    assert np.array_equal(answers(net), want)
    kz.reset()
    from safetensors import safe_open

    with safe_open(path, "numpy") as file:
        notes = file.metadata()
    assert notes["karez.position"] == "17" and notes["epoch"] == "1"
    files.save_file(
        {name: -value for name, value in tensors.items() if value.dtype == np.float32}, other, metadata=notes
    )
    with pytest.raises(
        kz.DataError, match="the header does not match its checksum: the file is damaged, or another program rewrote it"
    ):
        kz.load(other)


KILLED = """
import numpy as np
import karez as kz
w = kz.nn.Parameter((1 << 23,), kz.nn.init.normal(1.0), name="w")
kz.compile(lambda: w * 1)().wait()
while True:
    kz.save(path)
"""


def test_the_next_save_removes_the_files_of_killed_saves(tmp_path):
    path = tmp_path / "c.safetensors"
    for _ in range(2):
        run = subprocess.Popen(
            [sys.executable, "-c", f"path = {str(path)!r}\n" + KILLED],
            env=os.environ | {"PYTHONPATH": os.path.dirname(kz.__path__[0])},
        )
        deadline, aside = time.monotonic() + 120, []
        while not aside:
            assert run.poll() is None and time.monotonic() < deadline
            time.sleep(0.002)
            if any(".writing-" in name for name in os.listdir(tmp_path)):
                run.send_signal(signal.SIGSTOP)
                os.waitid(
                    os.P_PID, run.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT
                )  # the process may rename files until it has stopped
                aside = [
                    file.name for file in tmp_path.iterdir() if ".writing-" in file.name and file.stat().st_size > 0
                ]  # an empty file may not have its lock yet, and a save may remove it
                run.send_signal(signal.SIGCONT if not aside else signal.SIGSTOP)
        other = nn.Parameter([1.0], name="v")
        kz.compile(lambda: other * 1)().wait()
        kz.save(path)
        assert [name for name in os.listdir(tmp_path) if ".writing-" in name] == aside, (
            "the file of a process that is still writing must be kept"
        )
        run.kill()
        run.wait()
        kz.save(path)
        assert os.listdir(tmp_path) == [path.name]
        kz.reset()


@pytest.mark.parametrize("first", ["print", "load", "read", "state", "seed", "rank"])
def test_calls_before_the_first_mesh_do_not_fix_the_number_of_devices(first, saved):
    path, _ = saved
    kz.worlds._end()
    net = Net()
    what = {
        "print": lambda: repr(kz.tensor([1.0]) + 1),
        "load": lambda: kz.load(path),
        "read": lambda: net.fc.weight.numpy() if net.parameters() else None,
        "state": net.state_dict,
        "seed": lambda: kz.world().seed(3),
        "rank": kz.rank,
    }[first]
    what()
    step = kz.compile(lambda x: net(kz.with_layout(x, "data")), mesh=kz.Mesh(data=2))
    assert step(X).shape == (8, 4)
    with pytest.raises(
        kz.DeviceError,
        match=r"mesh\(data=4\) takes 4 devices, but the world has 2; karez.init\(devices=4\) before the first mesh",
    ):
        kz.Mesh(data=4)


def test_init_after_the_first_value_still_sets_the_number_of_devices():
    assert float(kz.tensor([2.0]) + 1) == 3
    with pytest.raises(kz.UserError, match="created when the first value was computed, read, saved or loaded"):
        kz.init(devices=4, team=2)
    kz.init(devices=4, seed=3)
    assert kz.Mesh(data=4).size == 4
    with pytest.raises(kz.UserError, match="the default world exists already; call init once"):
        kz.init(devices=8)


class Twin(nn.Module):
    def __init__(self, name=None):
        if name:
            super().__init__(name)
        self.a = nn.Linear(3, 2)

    def forward(self, x):
        return self.a(x)


def twins(*names):
    kz.reset()
    kz.seed(0)
    return [Twin(name) for name in names or (None, None)]


@pytest.mark.parametrize("saved_first", [0, 1])
@pytest.mark.parametrize("loaded_first", [0, 1])
def test_two_models_of_one_class_get_their_own_weights_whichever_is_used_first(tmp_path, saved_first, loaded_first):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    models, expected = twins(), [None, None]
    for i in (saved_first, 1 - saved_first):
        expected[i] = np.asarray(kz.compile(models[i])(x))
    assert not (expected[0] == expected[1]).any()
    kz.save(tmp_path / "c")
    models = twins()
    kz.load(tmp_path / "c")
    for i in (loaded_first, 1 - loaded_first):
        np.testing.assert_array_equal(np.asarray(kz.compile(models[i])(x)), expected[i])
    kz.save(tmp_path / "d")  # again, under the same names
    assert (tmp_path / "c").read_bytes() == (tmp_path / "d").read_bytes()


def test_a_load_into_one_of_two_models_of_one_class_requires_names(tmp_path):
    x = np.ones((1, 3), np.float32)
    first, second = twins()
    first(kz.tensor(x)), second(kz.tensor(x)).numpy()
    kz.save(tmp_path / "c")
    expected = np.asarray(second(kz.tensor(x)))
    _, second = twins()
    with pytest.raises(
        kz.NameError,
        match=r'1 variable is named .a.(bias|weight)., but the file has 2 \("a..*", "a..*#1"\): the match is ambiguous',
    ):
        kz.load(tmp_path / "c", second, extra=True)
    kz.load(
        tmp_path / "c", second, names={"a.weight": "", "a.bias": "", "a.weight#1": "a.weight", "a.bias#1": "a.bias"}
    )
    np.testing.assert_array_equal(np.asarray(second(kz.tensor(x))), expected)


def test_a_model_created_at_another_place_cannot_load_an_ambiguous_name(tmp_path):
    x = np.ones((1, 3), np.float32)
    for model in twins():
        model(kz.tensor(x)).numpy()
    kz.save(tmp_path / "c")
    twins()
    late_layer = Twin()  # the third instance of the class
    kz.load(tmp_path / "c")
    with pytest.raises(
        kz.NameError, match="has several tensors with this name, which were made at other places in the program"
    ):
        late_layer(kz.tensor(x)).numpy()


def test_a_load_requires_the_same_file_content_on_every_rank(tmp_path):
    program = f"""
import numpy as np
import karez as kz
from karez import nn
kz.seed(3)
net = nn.Linear(5, 3)
step = kz.compile(mesh=kz.Mesh(data=2))(lambda x: (net(x) ** 2).mean())
x = np.ones((8, 5), np.float32)
first = float(step(x))
folder = {str(tmp_path)!r}
kz.save(folder + "/good")
net.load_state_dict({{name: value * 2 for name, value in net.state_dict().items()}})
kz.save(folder + "/other")
doubled = float(step(x))
assert doubled != first
for other_path in ("/none", None, "/other"):
    path = "/good" if kz.rank() == 0 else other_path
    try:
        if path:
            kz.load(folder + path)
            print("no error")
    except kz.Error as error:
        print(kz.rank(), type(error).__name__, error)
    assert float(step(x)) == doubled, (path, float(step(x)))
kz.load(folder + "/good")
assert float(step(x)) == first
print("fine")
"""
    run = ranks(program)
    out, _ = run.communicate(timeout=100)
    assert run.returncode == 0 and out.count("fine") == 2 and "no error" not in out, out
    assert (
        out.count("0 UserError rank 0 requests a load") == 2
        and "1 DataError" in out
        and out.count("ranks 0 and 1 differ in a load") == 2
    ), out


@pytest.mark.parametrize("first", ["net", "target"])
def test_a_checkpoint_distinguishes_a_model_from_its_copy(tmp_path, first):
    x = np.ones((1, 3), np.float32)

    def models():
        kz.reset()
        kz.seed(0)
        net = Twin()
        return {"net": net, "target": copy.deepcopy(net)}

    both = models()
    both["target"].load_state_dict({name: value + 1 for name, value in both["net"].state_dict().items()})
    expected = {name: np.asarray(kz.compile(model)(x)) for name, model in both.items()}
    kz.save(tmp_path / "c")
    both = models()
    kz.load(tmp_path / "c")
    for name in (first, "target" if first == "net" else "net"):
        np.testing.assert_array_equal(np.asarray(kz.compile(both[name])(x)), expected[name])
    assert not np.array_equal(expected["net"], expected["target"])
