"""Tests of the example's command line: help, plans, and errors for invalid input."""

# builds: fashion_mnist
import gzip
import os
import re
import struct
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EXAMPLE = os.path.join(os.environ.get("KAREZ_BUILD", os.path.join(ROOT, "build")), "examples", "fashion_mnist")


def run(*words, timeout=120):
    return subprocess.run([EXAMPLE, *words], capture_output=True, text=True, timeout=timeout)


def images(count, value=3):
    return struct.pack(">iiii", 2051, count, 28, 28) + bytes((i * value) % 256 for i in range(count * 784))


def labels(count):
    return struct.pack(">ii", 2049, count) + bytes(i % 10 for i in range(count))


@pytest.fixture
def data(tmp_path):
    """A small data set: 192 training and 100 test images."""
    for name, count in (("train", 192), ("t10k", 100)):
        for kind, content in (("images-idx3", images(count)), ("labels-idx1", labels(count))):
            (tmp_path / f"{name}-{kind}-ubyte.gz").write_bytes(gzip.compress(content))
    return tmp_path


def message(result):
    """The error text, with the last part of each path and without line numbers."""
    text = re.sub(r"/[^\s':]*/", "", result.stderr.strip())
    return re.sub(r"(\w+\.cc):\d+", r"\1:N", text)


USER, DATA = 64, 77  # exit codes follow from the kind of error


def error_of(result, code=USER):
    assert result.returncode == code, result
    return message(result)


def test_a_successful_run_prints_accuracy_and_memory_and_writes_the_plan(data, tmp_path):
    plan = tmp_path / "plan.txt"
    result = run(
        "--data", str(data), "--model", "mlp", "--mesh", "data=2,model=2", "--epochs", "1", "--plan", str(plan)
    )
    assert result.returncode == 0, result.stderr
    assert re.search(r"accuracy 0\.\d{4} on 100 test images", result.stdout)
    assert re.search(r"memory     at most \d+\.\d\d MiB on a device", result.stdout)
    assert plan.read_text().startswith("plan ")


def test_equal_seeds_give_equal_losses(data):
    words = ("--data", str(data), "--model", "cnn", "--mesh", "data=2", "--epochs", "2", "--seed", "3")
    first, second = run(*words).stdout, run(*words).stdout
    losses = re.findall(r"loss (\S+)", first)
    assert losses and losses == re.findall(r"loss (\S+)", second)


def test_help_lists_every_option():
    result = run("--help")
    assert result.returncode == 0
    for option in ("--data", "--model", "--mesh", "--devices", "--epochs", "--batch", "--lr", "--seed", "--plan"):
        assert option in result.stdout


GOLDEN = {
    "an unknown option": (
        ["--modle", "cnn"],
        "unknown option --modle; the nearest of 12 are: --model, --losses, --lr, --mesh, --batch, --data, "
        "--epochs, --plan, --seed, --devices",
    ),
    "an unknown model": (["--model", "rnn"], "option --model: 'rnn' is not one of cnn, mlp"),
    "a mesh larger than the devices": (
        ["--mesh", "data=4", "--devices", "2"],
        "mesh(data=4) takes 4 devices, but the world has 2; World({.devices = 4}) has enough",
    ),
    "an invalid mesh": (["--mesh", "data=x"], "mesh 'data=x': line 1, column 6: expected an integer at 'x'"),
    "a batch that is not a number": (["--batch", "many"], "option --batch: 'many' is not an integer"),
    "a rate that is not a number": (["--lr", "nan"], "option --lr: nan is not a finite number"),
    "a rate below zero": (["--lr", "-1"], "optimiser 'adam': lr is -1.0; it must be finite and at least 0"),
    "an empty batch": (["--batch", "0"], "option --batch: 0 is below 1"),
    "a seed below zero": (["--seed", "-1"], "option --seed: -1 is below 0"),
    "a device count beyond the integer range": (
        ["--devices", "4294967297"],
        "option --devices: 4294967297 is not from 1 to 16777216",
    ),
    "a mesh above the device limit": (
        ["--mesh", "data=99999"],
        "World: 99999 devices exceed the limit of 4096; World({.devices = 99999, .device_limit = 99999}) raises "
        "the limit, but plans for so many devices take minutes to make",
    ),
    "a missing directory": (["--data", "/nowhere/at/all"], "data directory 'all' does not exist"),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_invalid_options_are_rejected_with_their_values(name, data):
    words, text = GOLDEN[name]
    if "--data" not in words:
        words = ["--data", str(data), *words]
    assert error_of(run(*words), DATA if "directory" in text else USER) == "fashion_mnist: " + text


IMAGES, LABELS = "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"


def flipped(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :]


DAMAGE = {
    "a wrong magic number": (
        IMAGES,
        lambda: gzip.compress(b"\0\0\x08\x01" + images(192)[4:]),
        r"unexpected magic number 0x00000801; an IDX file of unsigned bytes with 3 dimensions begins with 0x00000803",
    ),
    "counts beyond the file": (
        IMAGES,
        lambda: gzip.compress(images(192)[:-100]),
        r"the shape \[192, 28, 28\] in the header takes 150528 bytes, but only 150428 follow it",
    ),
    "a truncated file": (IMAGES, lambda: gzip.compress(images(192))[:-50], r"gzip data ends early, after \d+ bytes"),
    "a flipped byte": (LABELS, lambda: flipped(gzip.compress(labels(192))), r"gzip data is damaged near byte \d+: .+"),
    "a label out of range": (
        LABELS,
        lambda: gzip.compress(labels(192)[:25] + bytes([11]) + labels(192)[26:]),
        r"label 11 of row 17 is not in 0..9",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_file_is_reported_with_its_fault(name, data):
    file, content, text = DAMAGE[name]
    (data / file).write_bytes(content())
    assert re.fullmatch(f"fashion_mnist: {file}: {text}", error_of(run("--data", str(data)), DATA))


def test_a_missing_file_is_reported(data):
    (data / "t10k-labels-idx1-ubyte.gz").unlink()
    assert re.fullmatch(
        r"fashion_mnist: data directory '\w+' has no file t10k-labels-idx1-ubyte, neither plain nor with .gz",
        error_of(run("--data", str(data)), DATA),
    )


if os.environ.get("KAREZ_ALL"):  # these take minutes: ./dev test --all

    @pytest.mark.parametrize("seed", [1, 2, 3])
    @pytest.mark.parametrize(
        "model, mesh, min_accuracy",
        [("cnn", "", 0.89), ("cnn", "data=2,model=2", 0.89), ("mlp", "", 0.87), ("mlp", "data=2,model=2", 0.87)],
    )
    def test_training_with_default_options_reaches_the_expected_accuracy(model, mesh, min_accuracy, seed):
        result = run("--model", model, "--mesh", mesh, "--seed", str(seed), timeout=300)
        assert result.returncode == 0, result.stderr
        assert float(re.search(r"accuracy (\S+)", result.stdout).group(1)) >= min_accuracy
