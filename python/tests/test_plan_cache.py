"""Plans cached on disk, and shared by several processes."""

import os
import subprocess
import sys

import karez as kz

PROGRAM = """
import numpy as np
import karez as kz
from karez import nn
kz.init(devices=2)
net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
opt = kz.optim.Adam(net.parameters(), lr=0.01)
@kz.compile(mesh=kz.Mesh(data=2))
def step(x):
    y = net(x)
    loss = (y * y).mean()
    loss.backward()
    opt.step()
    return loss
x = (np.arange(96, dtype=np.float32) % 7 - 3).reshape(12, 8)
print([step(x).item() for _ in range(3)])
"""


def start_process(folder):
    env = {**os.environ, "KAREZ_CACHE": str(folder), "PYTHONPATH": os.path.dirname(kz.__path__[0])}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def outputs_of(processes):
    results = [(p.communicate(), p.returncode) for p in processes]
    assert all(code == 0 and not err for (_, err), code in results), results
    return {out for (out, _), _ in results}


def test_four_processes_share_a_folder(tmp_path):
    folder = tmp_path / "plans"
    uncached = outputs_of([start_process("off")])
    assert not folder.exists()
    assert outputs_of([start_process(folder) for _ in range(4)]) == uncached
    files = sorted(f.name for f in folder.iterdir())
    assert files and folder.stat().st_mode & 0o777 == 0o700
    written = {f: f.read_bytes() for f in folder.iterdir()}
    assert outputs_of([start_process(folder) for _ in range(4)]) == uncached
    assert {f: f.read_bytes() for f in folder.iterdir()} == written


def test_a_damaged_cached_plan_is_replaced(tmp_path):
    (cold_output,) = outputs_of([start_process(tmp_path / "plans")])
    for file in (tmp_path / "plans").iterdir():
        file.write_bytes(file.read_bytes()[:-9])
    process = start_process(tmp_path / "plans")
    out, err = process.communicate()
    assert process.returncode == 0 and out == cold_output
    lines = err.splitlines()
    assert lines and all("is truncated; it is made again" in line for line in lines), err
    assert outputs_of([start_process(tmp_path / "plans")]) == {cold_output}


def test_a_cached_plan_has_the_layouts_of_results(tmp_path):
    """The planner chooses the layouts of expressions, so a cached plan must contain them."""
    program = """
import numpy as np
import karez as kz
mesh = kz.Mesh(data=2)
x = kz.compile(lambda a: kz.with_layout(a + 0, "data", None), mesh=mesh)(np.ones((301, 128), np.float32))
for _ in range(20):
    x = kz.F.relu(x * 2 - 1)
print(x.layout, float(x.sum()))
"""
    env = {**os.environ, "KAREZ_CACHE": str(tmp_path), "PYTHONPATH": os.path.dirname(kz.__path__[0])}
    results = [
        subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=100)
        for _ in range(2)
    ]
    assert [item.stdout for item in results] == [f"P('data', None) {301 * 128}.0\n"] * 2, results[1].stderr
    assert list(tmp_path.iterdir()), "the plan must be cached"
