"""Tests of the memory benchmark's command line: tables that fit, tables that do not, invalid files, and exit codes."""

# builds: bench_memory
import json
import os
import random
import re
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BENCH = os.path.join(os.environ.get("KAREZ_BUILD", os.path.join(ROOT, "build")), "bench", "bench_memory")


def run(*words):
    return subprocess.run([BENCH, *map(str, words)], capture_output=True, text=True, timeout=120)


def write(path, blocks):
    rows = [f"{i},{lower},{upper},{size}" for i, (lower, upper, size) in enumerate(blocks)]
    path.write_text("\n".join(["id,lower,upper,size", *rows]) + "\n")
    return path


@pytest.fixture
def full(tmp_path):
    """A rectangle of 1024 bytes and 100 time steps, divided into 80 blocks, so that a packing that fits has no gap."""
    chance, areas = random.Random(3), [(0, 100, 0, 1024)]
    while len(areas) < 80:
        a, b, low, high = areas.pop(chance.randrange(len(areas)))
        if chance.random() < 0.5 and b - a > 1:
            m = chance.randrange(a + 1, b)
            areas += [(a, m, low, high), (m, b, low, high)]
        elif high - low > 1:
            m = chance.randrange(low + 1, high)
            areas += [(a, b, low, m), (a, b, m, high)]
        else:
            areas.append((a, b, low, high))
    chance.shuffle(areas)
    return write(tmp_path / "full.1024.csv", [(a, b, high - low) for a, b, low, high in areas])


def test_tables_that_fit_are_reported_with_their_proof(full, tmp_path):
    result = run("--json", tmp_path / "out.json", full, write(tmp_path / "small.9.csv", [(0, 2, 4), (1, 3, 4)]))
    assert result.returncode == 0, result.stderr
    head, *rows, last = result.stdout.splitlines()
    assert re.search(r"blocks +live +capacity +greedy +peak +fits +seconds +proof or gap", head)
    assert re.match(r"full\.1024\.csv +80 +1024 +1024 +\d+ +1024 +yes +[\d.]+ +optimal$", rows[0])
    assert re.match(r"small\.9\.csv +2 +8 +9 +8 +8 +yes +[\d.]+ +optimal$", rows[1])
    assert last == "memory: worst ratio 1.000 (target 1.000)"
    report = json.loads((tmp_path / "out.json").read_text())
    assert [row["peak"] for row in report["rows"]] == [1024, 8] and report["worst"] == 1


def test_a_table_that_cannot_fit_is_reported_with_the_reason(full):
    result = run("--capacity", 1023, full)
    assert result.returncode == 1
    assert "NO" in result.stdout and "cannot fit: needs 1024" in result.stdout
    assert result.stdout.splitlines()[-1] == "memory: worst ratio 1.001 (target 1.000)"


def test_an_interrupted_search_reports_its_gap(full):
    result = run("--work", 1, full)
    assert result.returncode == 1
    assert re.search(r"NO +[\d.]+ +gap <= \d+\.\d\d %", result.stdout)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--capacity", "8"],
        ["--capacity", "0", "x.8.csv"],
        ["--capacity", "8k", "x.csv"],
        ["--work"],
        ["--other", "1", "x"],
    ],
)
def test_invalid_arguments_print_the_usage(words):
    result = run(*words)
    assert result.returncode == 2 and result.stderr.startswith("usage: ")


def test_invalid_files_are_reported_with_their_line(tmp_path):
    result = run(tmp_path / "none.8.csv")
    assert result.returncode == 77 and result.stderr.endswith("none.8.csv: cannot be read\n")
    result = run(write(tmp_path / "bad.8.csv", [(0, 2, 4), (5, 5, 1)]))
    assert result.returncode == 77 and result.stderr.endswith("bad.8.csv:3: upper 5 is not above lower 5\n")
    result = run(write(tmp_path / "blocks.csv", [(0, 2, 4)]))
    assert result.returncode == 64 and "no capacity in the name" in result.stderr
