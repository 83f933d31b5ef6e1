"""Installation: `pip install .` in a fresh environment, and a wheel that trains in a bare Debian root file system. The
long tests run only if KAREZ_ALL is set."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRAIN = """
import numpy as np
import karez as kz
net = kz.nn.Linear(3, 2)
opt = kz.optim.Adam(net.parameters())
@kz.compile(mesh=kz.Mesh(data=2))
def step(x, y):
    loss = kz.F.cross_entropy(net(x), y)
    loss.backward(); opt.step()
    return loss
print(kz.__version__, float(step(np.ones((4, 3), np.float32), np.arange(4) % 2)) < 5)
"""
long = pytest.mark.skipif(not os.environ.get("KAREZ_ALL"), reason="builds the package again: ./dev test --all")


def run(*command, **more):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=3600, **more)


def can_reach_registry():
    """Whether pip can reach a package registry."""
    return run(sys.executable, "-m", "pip", "index", "versions", "numpy").returncode == 0


@long
def test_pip_installs_in_a_fresh_environment(tmp_path):
    if not can_reach_registry():
        pytest.skip("no package registry can be reached")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    assert run(sys.executable, "-m", "venv", tmp_path / "venv").returncode == 0
    python = tmp_path / "venv" / "bin" / "python"
    installed = run(python, "-m", "pip", "install", "--quiet", ROOT, env=environment)
    assert installed.returncode == 0, installed.stderr
    trained = run(python, "-c", TRAIN, env=environment, cwd=tmp_path)
    assert trained.returncode == 0 and trained.stdout.endswith("True\n"), trained.stderr
    assert (
        run(
            python,
            "-c",
            "import karez, pathlib; assert (pathlib.Path(karez.__path__[0]) / '_core.pyi').exists()",
            env=environment,
            cwd=tmp_path,
        ).returncode
        == 0
    )


def test_all_missing_requirements_are_listed_together(tmp_path):
    command = [
        "cmake",
        "-S",
        ROOT,
        "-B",
        tmp_path,
        "-G",
        "Ninja",
        "-DSKBUILD=ON",
        "-DKAREZ_PYTHON=ON",
        "-DCMAKE_IGNORE_PATH=/usr/include;/usr/include/eigen3",
        f"-DPython_EXECUTABLE={sys.executable}",
    ]
    installed = run(*command)
    message = " ".join(installed.stderr.split())
    assert installed.returncode != 0 and "apt-get install" in message
    for package in ("libeigen3-dev", "libxxhash-dev", "nlohmann-json3-dev"):
        assert package in message
    assert "libgtest-dev" not in message and "libcli11-dev" not in message, (
        "packages that only tests and tools need must not be listed"
    )


@long
def test_a_wheel_trains_in_a_bare_debian_root(tmp_path):
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        pytest.skip("a bare Debian root needs root privileges and debootstrap")
    installed = run(ROOT / "dev", "wheel", tmp_path / "wheels")
    assert installed.returncode == 0, installed.stderr
    (wheel,) = (tmp_path / "wheels").glob("*.whl")
    assert "manylinux_2_36" in wheel.name
    root = tmp_path / "root"
    if run("debootstrap", "--variant=minbase", "--include=python3-venv", "bookworm", root).returncode != 0:
        pytest.skip("no Debian archive can be reached")
    got = run(
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--python-version",
        "3.11",
        "--only-binary=:all:",
        "--dest",
        tmp_path / "wheels",
        "cloudpickle>=3,<4",
        "numpy>=1.26,<3",
    )
    if got.returncode != 0:
        pytest.skip("no package registry can be reached")
    shutil.copytree(tmp_path / "wheels", root / "wheels")
    inside = "python3 -m venv /v && /v/bin/pip install -q --no-index --find-links /wheels karez && /v/bin/python -"
    trained = run("chroot", root, "sh", "-c", inside, input=TRAIN)
    assert trained.returncode == 0 and trained.stdout.endswith("True\n"), trained.stderr
