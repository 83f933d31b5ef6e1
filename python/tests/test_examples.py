"""The examples: Python's Fashion-MNIST has the losses of C++'s bit for bit on every mesh; char_gpt learns, samples, and agrees on meshes."""

import gzip
import os
import pathlib
import random
import re
import struct
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("KAREZ_BUILD", "build")
ENVIRONMENT = os.environ | {"PYTHONPATH": str(BUILD / "python")}


def python(example, *words, code=0):
    done = subprocess.run([sys.executable, ROOT / "examples" / example, *words], capture_output=True, text=True, timeout=600, env=ENVIRONMENT)
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """192 training and 100 test images of noise."""
    folder, draw = tmp_path_factory.mktemp("images"), random.Random(5)
    for part, count in (("train", 192), ("t10k", 100)):
        pixels = struct.pack(">iiii", 2051, count, 28, 28) + draw.randbytes(count * 784)
        labels = struct.pack(">ii", 2049, count) + bytes(draw.randrange(10) for _ in range(count))
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(pixels))
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))
    return folder


@pytest.mark.parametrize("model, optimizer, mesh", [
    ("cnn", "adam", ""), ("cnn", "adam", "data=4"), ("cnn", "adam", "model=4"), ("cnn", "adam", "data=2,model=2"), ("cnn", "sgd", "data=2"),
    ("mlp", "adam", ""), ("mlp", "adam", "data=2,model=2"), ("mlp", "sgd", "model=2"),
])
def test_fashion_mnist_has_the_losses_of_cpp_bit_for_bit(model, optimizer, mesh, images, tmp_path):
    words = ["--data", images, "--model", model, "--optimizer", optimizer, "--mesh", mesh, "--epochs", "2", "--seed", "3", "--losses"]
    subprocess.run([BUILD / "examples" / "fashion_mnist", *words, tmp_path / "cpp"], check=True, capture_output=True, timeout=300)
    said = python("fashion_mnist.py", *words, tmp_path / "python").stdout
    cpp, ours = ([float(line) for line in (tmp_path / name).read_text().split()] for name in ("cpp", "python"))
    assert len(ours) == 6 and ours == cpp
    assert re.search(r"accuracy 0\.\d{4} on 100 test images", said) and "peak memory by device" in said


def test_fashion_mnist_says_what_is_wrong(images, tmp_path):
    assert "data directory" in python("fashion_mnist.py", "--data", str(tmp_path / "nowhere"), code=1).stderr
    assert "expected an integer" in python("fashion_mnist.py", "--data", images, "--mesh", "data=x", code=1).stderr


def test_the_readmes_program_runs():
    (program,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    losses = [float(line) for line in done.stdout.split()]
    assert len(losses) == 3 and losses[2] < losses[0]


SMALL = ["--steps", "30", "--layers", "1", "--width", "16", "--heads", "2", "--context", "16", "--sample", "20", "--lr", "1e-2"]


def validation(text):
    return float(re.search(r"validation loss (\S+) over (\d+) characters", text).group(1))


def test_char_gpt_learns_on_one_device_and_alike_on_a_mesh(tmp_path):
    text = tmp_path / "text"
    text.write_text("the quick brown fox jumps over the lazy dog.\n" * 120)
    one = python("char_gpt.py", "--data", text, *SMALL, "--at-most", "2.6").stdout
    counted = int(re.search(r"over (\d+) characters", one).group(1))
    assert counted == 120 * 45 - 120 * 45 * 9 // 10 - 1, "every character of the validation split but the first is predicted once"
    assert len(one.split("characters\n")[1].rstrip("\n")) >= 15
    assert abs(validation(python("char_gpt.py", "--data", text, *SMALL, "--mesh", "data=2,model=2").stdout) - validation(one)) < 2e-3
    python("char_gpt.py", "--data", text, *SMALL[:-2], "--lr", "0", "--at-most", "2.0", code=1)
