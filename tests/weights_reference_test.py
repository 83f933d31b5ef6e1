"""Tests weight files with the safetensors package: Karez and the package read each other's files, bit for bit."""

# builds: weight_values
import os
import pathlib
import subprocess

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

root = pathlib.Path(__file__).resolve().parent.parent


def tool(*arguments):
    path = root / os.environ.get("KAREZ_BUILD", "build") / "tools" / "weight_values"
    return subprocess.run([path, *map(str, arguments)], capture_output=True, text=True)


def bits(array):
    return array.dtype.str, array.shape, array.tobytes()


def random_tensors(seed):
    random = np.random.default_rng(seed)
    special = np.array([np.nan, -0.0, np.inf, -np.inf, np.finfo(np.float32).smallest_subnormal, np.pi], np.float32)
    return {
        "block0.fc.weight": random.normal(size=(5, 7)).astype(np.float32),
        "block0.fc.bias": special,
        "wide": random.normal(size=(3, 1, 4)),
        "four": random.normal(size=(2, 3, 4, 5)).astype(np.float32),
        "counts": random.integers(-(2**40), 2**40, (4, 2)),
        "small": random.integers(-100, 100, (9,)).astype(np.int32),
        "mask": random.random((3, 5)) < 0.5,
        "scalar": np.array(2.5, np.float32),
        'odd "name"/ä': np.arange(3, dtype=np.float64),
        "a": np.array([7], np.int64),
    }


def test_karez_and_the_package_read_each_others_files(tmp_path):
    tensors = random_tensors(1)
    save_file(tensors, tmp_path / "in.safetensors", {"format": "np", "note": "hello"})
    ran = tool(tmp_path / "in.safetensors", tmp_path, tmp_path / "out.safetensors")
    assert ran.returncode == 0, ran.stderr
    for number, name in enumerate(sorted(tensors, key=lambda text: text.encode())):
        got = np.load(tmp_path / f"{number}.npy")
        assert bits(got) == bits(tensors[name]), name
    back = load_file(tmp_path / "out.safetensors")
    assert set(back) == set(tensors)
    for name, value in tensors.items():
        assert bits(back[name]) == bits(value), name
    with safe_open(tmp_path / "out.safetensors", "np") as file:
        notes = file.metadata()
    assert len(notes.pop("karez.checksums").split(" ")) == len(tensors) and len(notes.pop("karez.header")) == 16
    assert notes == {"format": "karez", "karez.position": "12", "by": "weight_values"}


def test_floats_of_16_bits_are_widened_exactly(tmp_path):
    every = np.arange(65536, dtype=np.uint16).view(np.float16)
    save_file({"halves": every}, tmp_path / "in.safetensors")
    assert tool(tmp_path / "in.safetensors", tmp_path, tmp_path / "out.safetensors").returncode == 0
    got, want = np.load(tmp_path / "0.npy"), every.astype(np.float32)
    assert np.array_equal(np.isnan(got), np.isnan(want))
    assert np.array_equal(got[~np.isnan(got)].view(np.uint32), want[~np.isnan(want)].view(np.uint32))


@pytest.mark.parametrize("at", [0, 1, 7, 8, 9, 60, -1])
def test_files_that_the_package_rejects_are_rejected(tmp_path, at):
    """Changes a header byte or truncates the file. The package and Karez must reject the file, and Karez must name it
    and end with exit code 77."""
    path = tmp_path / "in.safetensors"
    save_file({"w": np.ones((2, 2), np.float32)}, path)
    data = bytearray(path.read_bytes())
    if at < 0:
        data = data[:at]
    else:
        data[at] ^= 0xFF
    path.write_bytes(bytes(data))
    with pytest.raises(Exception):  # noqa: B017 (the library documents no exception class)
        load_file(path)
    ran = tool(path, tmp_path, tmp_path / "out.safetensors")
    assert ran.returncode == 77, ran
    assert "in.safetensors: " in ran.stderr
