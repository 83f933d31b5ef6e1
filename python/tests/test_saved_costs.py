"""The table of karez doctor --kernels --save: later programs plan with it, and all ranks with that of rank 0."""

import os
import re
import subprocess
import sys

import karez as kz

PROGRAM = """
import numpy as np, karez as kz
f = kz.compile(lambda x: x * 2, mesh="")
f.compile(np.zeros(4, np.float32))
print(next(line for line in f.summary().splitlines() if line.startswith("costs: ")))
"""
BUILD = os.path.dirname(os.path.dirname(kz.__path__[0]))


def fnv_hash(text):
    """The hash of karez/base/hash.h: FNV-1a of the text and its length, mixed by the finaliser of MurmurHash3."""
    word = 0xCBF29CE484222325
    for byte in text.encode() + len(text).to_bytes(8, "little"):
        word = (word ^ byte) * 0x100000001B3 % 2**64
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        word = (word ^ word >> 33) * factor % 2**64
    return word ^ word >> 33


def run(folder, *command, **environment):
    bare = {name: value for name, value in os.environ.items() if name != "KAREZ_COSTS"}
    environment = {"XDG_DATA_HOME": str(folder), "PYTHONPATH": f"{BUILD}/python", "KAREZ_CACHE": "off", **environment}
    command = command or (sys.executable, "-c", PROGRAM)
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env={**bare, **environment})


def save(folder, origin):
    """Saves a table for this machine, as karez doctor does."""
    folder.mkdir()
    cpuinfo = open("/proc/cpuinfo").read()
    model, family, number = (
        re.search(rf"^{name}\s*: (.*)$", cpuinfo, re.M)[1] for name in ("model name", "cpu family", "model")
    )
    processor = f"{model}, family {family} model {number}"
    cpus = os.sysconf("SC_NPROCESSORS_ONLN")
    rates = "".join(f"rate {isa} team 64 pool.l1=1e9\n" for isa in ("baseline", "avx2", "avx512"))
    rest = f'# {processor}; {cpus} CPU{"s" if cpus > 1 else ""}\norigin "{origin}"\n{rates}'
    path = folder / "karez" / f"costs-{re.sub('[^a-z0-9]+', '-', processor.lower())}.txt"
    path.parent.mkdir()
    path.write_text(f"# karez costs 1 {fnv_hash(rest):016x}\n{rest}")
    return path


def test_a_program_names_the_saved_table(tmp_path):
    path = save(tmp_path / "a", "measured by hand")
    assert run(tmp_path / "a").stdout == f"costs: measured by hand, saved in {path}\n"
    assert run(tmp_path / "a", KAREZ_COSTS="default").stdout.startswith("costs: defaults, ")
    path.write_text(path.read_text().replace("hand", "foot"))
    changed = run(tmp_path / "a")
    for text in changed.stdout, changed.stderr:
        assert f"the saved cost table {path} is not used, because it is incomplete or was modified" in text


def test_all_ranks_plan_with_the_table_of_rank_0(tmp_path):
    first = save(tmp_path / "0", "measured by rank 0")
    save(tmp_path / "1", "measured by rank 1")
    command = f"XDG_DATA_HOME={tmp_path}/$KAREZ_RANK exec {sys.executable} -c '{PROGRAM}'"
    result = run(tmp_path, f"{BUILD}/tools/karez", "run", "-n", "2", "sh", "-c", command)
    assert result.returncode == 0, result
    for rank in 0, 1:
        assert f"[{rank}] costs: measured by rank 0, saved in {first}\n" in result.stdout
