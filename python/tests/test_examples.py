"""The examples: fashion_mnist.py computes the losses of the C++ program, bit for bit and on every mesh; the other
examples learn, and their losses are about the same on every mesh."""

# builds: fashion_mnist
import gzip
import json
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile

import numpy as np
import pytest

from karez import data

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("KAREZ_BUILD", "build")
ENVIRONMENT = os.environ | {"PYTHONPATH": str(BUILD / "python")}


PLAIN_KERNELS = set()  # that the steps of an example may use


def python(example, *options, code=0):
    """Runs an example and checks its exit code, and that its steps use only fast kernels."""
    with tempfile.TemporaryDirectory() as folder:
        profile = {"KAREZ_PROFILE": folder, "KAREZ_PROFILE_SKIP": "0", "KAREZ_PROFILE_STEPS": "6"}
        done = subprocess.run(
            [sys.executable, ROOT / "examples" / example, *options],
            capture_output=True,
            text=True,
            timeout=600,
            env=ENVIRONMENT | profile,
        )
        assert done.returncode == code, done.stderr
        for trace in pathlib.Path(folder).glob("*.json"):
            calls = [event["args"] for event in json.loads(trace.read_text())["traceEvents"] if "args" in event]
            kernels = {call["kernel"]: call["where"] for call in calls if "kernel" in call}
            plain = {name: where for name, where in kernels.items() if name.startswith("plain.")}
            assert plain.keys() <= PLAIN_KERNELS, f"{example} {options}: {plain}"
        return done


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """A folder with 192 training and 100 test images of noise."""
    folder, draw = tmp_path_factory.mktemp("images"), random.Random(5)
    for part, count in (("train", 192), ("t10k", 100)):
        pixels = struct.pack(">iiii", 2051, count, 28, 28) + draw.randbytes(count * 784)
        labels = struct.pack(">ii", 2049, count) + bytes(draw.randrange(10) for _ in range(count))
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(pixels))
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))
    return folder


@pytest.mark.parametrize(
    "model, optimizer, mesh",
    [
        ("cnn", "adam", ""),
        ("cnn", "adam", "data=4"),
        ("cnn", "adam", "model=4"),
        ("cnn", "adam", "data=2,model=2"),
        ("cnn", "sgd", "data=2"),
        ("mlp", "adam", ""),
        ("mlp", "adam", "data=2,model=2"),
        ("mlp", "sgd", "model=2"),
        ("cnn", "adam", "data=1,model=1"),
        ("cnn", "adam", "data=2,model=1"),
        ("mlp", "adam", "data=1,model=2"),
    ],
)
def test_fashion_mnist_computes_the_losses_of_the_cpp_program_bit_for_bit(model, optimizer, mesh, images, tmp_path):
    options = [
        "--data",
        images,
        "--model",
        model,
        "--optimizer",
        optimizer,
        "--mesh",
        mesh,
        "--epochs",
        "2",
        "--seed",
        "3",
        "--losses",
    ]
    subprocess.run(
        [BUILD / "examples" / "fashion_mnist", *options, tmp_path / "cpp"], check=True, capture_output=True, timeout=300
    )
    output = python("fashion_mnist.py", *options, tmp_path / "python").stdout
    cpp, python_losses = ([float(line) for line in (tmp_path / name).read_text().split()] for name in ("cpp", "python"))
    assert len(python_losses) == 6 and python_losses == cpp
    assert re.search(r"accuracy 0\.\d{4} on 100 test images", output) and "MiB on a device" in output


def test_fashion_mnist_reports_wrong_arguments(images, tmp_path):
    assert "data directory" in python("fashion_mnist.py", "--data", str(tmp_path / "nowhere"), code=1).stderr
    assert "expected an integer" in python("fashion_mnist.py", "--data", images, "--mesh", "data=x", code=1).stderr


def test_the_program_in_the_readme_prints_the_losses_shown_there():
    (program,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    (losses,) = re.findall(r"It prints the loss of three steps: ([\d., ]+)\.\n", (ROOT / "README.md").read_text())
    assert [float(line) for line in done.stdout.split()] == pytest.approx(
        [float(loss) for loss in losses.split(", ")], abs=2e-3
    )


SMALL = [
    "--steps",
    "30",
    "--layers",
    "1",
    "--width",
    "16",
    "--heads",
    "2",
    "--context",
    "16",
    "--sample",
    "20",
    "--lr",
    "1e-2",
]


def validation(text):
    return float(re.search(r"validation loss (\S+) over (\d+) characters", text).group(1))


def test_char_gpt_learns_on_one_device_and_equally_on_a_mesh(tmp_path):
    text = tmp_path / "text"
    text.write_text("the quick brown fox jumps over the lazy dog.\n" * 120)
    one = python("char_gpt.py", "--data", text, *SMALL, "--at-most", "2.6").stdout
    counted = int(re.search(r"over (\d+) characters", one).group(1))
    assert counted == 120 * 45 - 120 * 45 * 9 // 10 - 1, (
        "each character of the validation split except the first must be predicted once"
    )
    assert len(one.split("characters\n")[1].rstrip("\n")) >= 15
    for mesh in ("data=2,model=2", "data=1,model=1", "data=2,model=1", "data=1,model=2"):
        assert (
            abs(validation(python("char_gpt.py", "--data", text, *SMALL, "--mesh", mesh).stdout) - validation(one))
            < 2e-3
        ), mesh
    python("char_gpt.py", "--data", text, *SMALL[:-2], "--lr", "0", "--at-most", "2.0", code=1)


def torch_like(characters, layers, width, context):
    """The tensors of the example's model, with the names and shapes that they would have in a PyTorch module."""
    draw = np.random.default_rng(3)
    shapes = {
        "token.weight": (characters, width),
        "position": (context, width),
        "norm.weight": (width,),
        "norm.bias": (width,),
        "head.weight": (characters, width),
    }
    for i in range(layers):
        for name, size in (
            ("qkv", (3 * width, width)),
            ("out", (width, width)),
            ("up", (4 * width, width)),
            ("down", (width, 4 * width)),
        ):
            shapes |= {f"blocks.{i}.{name}.weight": size, f"blocks.{i}.{name}.bias": size[:1]}
        shapes |= {f"blocks.{i}.{ln}.{what}": (width,) for ln in ("ln1", "ln2") for what in ("weight", "bias")}
    return {
        name: (
            np.ones(size)
            if "ln" in name and name.endswith("weight") or name == "norm.weight"
            else draw.normal(size=size) * 0.3
        ).astype(np.float32)
        for name, size in shapes.items()
    }


def test_finetune_trains_only_an_adapter_of_given_weights(tmp_path):
    text, weights = tmp_path / "text", tmp_path / "weights.safetensors"
    text.write_text("the quick brown fox jumps over the lazy dog.\n" * 50)
    tensors = torch_like(128, 2, 16, 12)
    save = pytest.importorskip("safetensors.numpy").save_file
    try:
        import safetensors.torch  # noqa: F401

        program = (
            "import sys, numpy as np, torch; from safetensors.torch import save_file; save_file({k: "
            "torch.from_numpy(v) for k, v in np.load(sys.argv[1]).items()}, sys.argv[2])"
        )
        np.savez(tmp_path / "numbers.npz", **tensors)
        subprocess.run([sys.executable, "-c", program, tmp_path / "numbers.npz", weights], check=True, timeout=300)
    except ImportError:
        save(tensors, weights)
    options = [
        "--weights",
        weights,
        "--data",
        text,
        "--characters",
        "128",
        "--layers",
        "2",
        "--heads",
        "2",
        "--width",
        "16",
        "--context",
        "12",
        "--steps",
        "60",
        "--lr",
        "2e-2",
    ]
    output = python("finetune.py", *options, "--save", tmp_path / "adapter.npz", "--at-most", "4.3").stdout
    before, after = (float(group) for group in re.search(r"loss (\S+) at the start, (\S+) at the end", output).groups())
    adapter = np.load(tmp_path / "adapter.npz")
    assert len(adapter) == 16 and all(np.abs(adapter[name]).max() > 0 for name in adapter) and after < before - 0.5
    assert re.search(r"^([\d,]+) of", output).group(1) == f"{sum(value.size for value in adapter.values()):,}"
    for mesh in ("data=2,model=2", "data=1,model=1", "data=2,model=1", "data=1,model=2"):
        output = python("finetune.py", *options, "--mesh", mesh).stdout
        assert abs(float(re.search(r"(\S+) at the end", output).group(1)) - after) < 5e-3, mesh
    python("finetune.py", *options[:-2], "--lr", "0", "--at-most", "4.3", code=1)


def test_resnet_learns_a_folder_of_images(tmp_path):
    draw = np.random.default_rng(0)
    for label, name in enumerate(("dark", "bright", "striped")):
        (tmp_path / name).mkdir()
        for i in range(12):
            pixels = draw.integers(0, 60, (40, 48, 3)) + 150 * (label == 1)
            pixels[:, ::4] += 120 * (label == 2)
            (tmp_path / name / f"{i}.png").write_bytes(data.images.encode_png(pixels.astype(np.uint8)))
    options = [
        "--data",
        tmp_path,
        "--width",
        "8",
        "--blocks",
        "1",
        "1",
        "1",
        "1",
        "--size",
        "32",
        "--batch",
        "12",
        "--epochs",
        "6",
    ]
    assert "(36 images in 3 classes)" in python("resnet.py", *options, "--at-most", "0.6").stdout
    for mesh in ("data=2", "data=1", "data=2,model=1", "data=1,model=2"):
        python("resnet.py", *options, "--mesh", mesh, "--at-most", "0.6")
    assert "(36 images in 3 classes)" in python("resnet.py", *options[2:], "--at-most", "0.6").stdout  # its own folder
    failed = python("resnet.py", *options[:-2], "--epochs", "1", "--lr", "0", "--at-most", "0.6", code=1)
    assert failed.stderr == "resnet: the loss is above --at-most\n"
    stderr = python("resnet.py", *options, "--batch", "60", code=1).stderr
    assert "expected at least 60 images, one batch; found 36" in stderr
