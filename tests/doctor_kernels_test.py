"""Tests of the command line of karez doctor --kernels."""

# builds: karez_command
import os
import re
import subprocess

from karez_command import DATA, KAREZ, USER
from pins import pinned


def doctor(*words, **environment):
    command = [KAREZ, "doctor", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, **environment})


def test_save_requires_kernels_and_a_folder():
    result = doctor("--save")
    assert (result.returncode, result.stderr) == (
        USER,
        "karez: --save saves the costs of kernels, so it requires --kernels\n",
    )
    result = doctor("--kernels", "--save", XDG_DATA_HOME="", HOME="")
    assert result.returncode == DATA and "neither XDG_DATA_HOME nor HOME is an absolute path" in result.stderr


def test_the_doctor_measures_kernels_and_keeps_the_other_costs_of_the_file(tmp_path):
    costs = tmp_path / "costs"
    costs.write_text(
        "link alpha=1 beta=2\nlink @shm alpha=3 beta=4\nlink @local alpha=5 beta=6\n"
        "rate other team 1 matmul.square=7\nrate avx2 team 3 pool.l1=9\nrate avx512 team 3 pool.l1=9\nrate baseline "
        "team 3 pool.l1=9\n"
    )
    result = doctor("--kernels", "--costs", costs, "--save", XDG_DATA_HOME=str(tmp_path))
    assert (result.returncode, result.stderr) == (0, ""), result
    origin = re.match(
        r"measured on .+, (avx512|avx2|baseline), on \d{4}-\d\d-\d\d(, while other programs used the cores)?\n",
        result.stdout,
    )
    isa = origin[1]
    lines = costs.read_text().splitlines()
    assert lines[1] == f'origin "{origin[0].strip()}"'
    for kept_line in ("link alpha=1.0 beta=2.0", "link @shm alpha=3.0 beta=4.0", "rate other team 1 matmul.square=7.0"):
        assert kept_line in lines
    measured = [line for line in lines if line.startswith(f"rate {isa} team 1 ")]
    assert pinned(len(measured), 38)
    assert all(1e6 < float(line.split("=")[1]) < 1e14 for line in measured)
    rates = {line.split()[4].split("=")[0]: float(line.split("=")[1]) for line in measured}
    assert rates["update.l1"] <= rates["update.l3"] and rates["update.l2"] <= rates["update.l3"], (
        "an update reads state that was last used one step earlier, so it must not be faster in L1 or L2 than in L3"
    )
    assert f"rate {isa} team 3 pool.l1=9.0" not in lines, "the rates of this instruction set must be measured again"
    assert sum(line.startswith("link @local ") for line in lines) == 1 and "link @local alpha=5.0 beta=6.0" not in lines
    for name, rate in rates.items():
        printed = float(re.search(rf"^  {re.escape(name)} +(\S+)", result.stdout, re.M)[1])
        assert abs(printed - rate * 1e-9) <= 0.00501, name
    (saved,) = (tmp_path / "karez").iterdir()
    assert re.fullmatch(r"costs-[a-z0-9-]+\.txt", saved.name)
    assert f"costs: saved in {saved}. " in result.stdout and "last digits of results" in result.stdout
    saved_lines = saved.read_text().splitlines()
    assert saved_lines[2:] == [
        "link alpha=2e-06 beta=1e-10" if line.startswith("link alpha") else line
        for line in lines[1:]
        if not line.startswith("link @shm") and (not line.startswith("rate ") or line.startswith(f"rate {isa} "))
    ], "the two files must contain the same measurement"
    costs.write_text("rate avx512 team 0 pool.l1=9\n")
    result = doctor("--kernels", "--costs", costs)
    assert result.returncode == DATA and "a team of 0 threads" in result.stderr
