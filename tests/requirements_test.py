"""Tests the messages of a build without a required compiler, program or library. They contain the command to install
it."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SYSTEMS = {
    "debian": 'NAME="Debian GNU/Linux"\nID=debian\n',
    "ubuntu": "ID=ubuntu\nID_LIKE=debian\n",
    "fedora": 'NAME="Fedora Linux"\nID=fedora\n',
    "rocky": 'ID="rocky"\nID_LIKE="rhel centos fedora"\n',
    "arch": "ID=arch\n",
    "manjaro": "ID=manjaro\nID_LIKE=arch\n",
    "tumbleweed": 'ID="opensuse-tumbleweed"\nID_LIKE="opensuse suse"\n',
    "another": "ID=another\n",
}


def environment(tmp_path, system, **more):
    (tmp_path / "os-release").write_text(SYSTEMS[system])
    return os.environ | {"KAREZ_OS_RELEASE": str(tmp_path / "os-release")} | more


def cmake(tmp_path, system, text, **definitions):
    script = tmp_path / "script.cmake"
    script.write_text(f"cmake_minimum_required(VERSION 3.25)\ninclude({ROOT}/cmake/packages.cmake)\n{text}\n")
    words = ["cmake", *(f"-D{name}={value}" for name, value in definitions.items()), "-P", script]
    done = subprocess.run(words, capture_output=True, text=True, env=environment(tmp_path, system))
    return done.returncode, " ".join(done.stderr.split())


@pytest.mark.parametrize(
    "system, line",
    [
        ("debian", "apt-get install libdnnl-dev libhwy-dev libgtest-dev libgmock-dev"),
        ("ubuntu", "apt-get install libdnnl-dev libhwy-dev libgtest-dev libgmock-dev"),
        ("fedora", "dnf install onednn-devel highway-devel gtest-devel gmock-devel"),
        ("rocky", "dnf install onednn-devel highway-devel gtest-devel gmock-devel"),
        ("arch", "pacman -S onednn highway gtest"),
        ("manjaro", "pacman -S onednn highway gtest"),
        ("tumbleweed", "zypper install onednn-devel 'pkgconfig(libhwy)' gtest gmock"),
    ],
)
def test_missing_libraries_have_the_package_names_of_the_system(tmp_path, system, line):
    text = 'install_line(line libdnnl-dev libhwy-dev libgtest-dev libgmock-dev)\nmessage("${line}")'
    assert cmake(tmp_path, system, text) == (0, line)


def third_parties():
    """The libraries that are found by name."""
    (line,) = re.findall(r"foreach\(library (.*)\)", (ROOT / "cmake/third_parties.cmake").read_text())
    return line.split()


def test_every_package_that_cmake_requires_has_a_row():
    rows = [line.split() for line in (ROOT / "cmake/packages.txt").read_text().splitlines() if not line.startswith("#")]
    assert all(len(row) == 4 for row in rows)
    text = (ROOT / "cmake/requirements.cmake").read_text()
    names = {"webpdemux": "webp", "sndfile": "sndfile1"}
    requested = {f"lib{names.get(name, name)}-dev" for name in third_parties()} | {
        word.strip('"') for word in text.split() if word.strip('")').endswith(("-dev", "1g-dev"))
    }
    requested = {name.strip('")') for name in requested if "$" not in name}
    assert len(requested) > 8 and requested <= {row[0] for row in rows}


@pytest.mark.parametrize(
    "kind, version, old",
    [
        ("GNU", "11.4.0", True),
        ("GNU", "12.2.0", False),
        ("Clang", "13.0.1", True),
        ("Clang", "14.0.6", False),
        ("Other", "1.0", False),
    ],
)
def test_an_old_compiler_is_rejected(tmp_path, kind, version, old):
    include = f'include({ROOT}/cmake/compiler.cmake)\nmessage("taken")'
    code, message = cmake(
        tmp_path,
        "fedora",
        include,
        CMAKE_CXX_COMPILER_ID=kind,
        CMAKE_CXX_COMPILER_VERSION=version,
        CMAKE_CXX_COMPILER="/bin/c++",
    )
    assert (code != 0) == old
    assert (
        f"the compiler /bin/c++ is {kind} {version}, but Karez needs at least GNU 12 or Clang 14: dnf install "
        f"gcc-toolset-12-gcc-c++"
        in message
        or not old
    )
    assert message == "taken" or old


@pytest.mark.parametrize(
    "system, line",
    [
        ("fedora", "dnf install cmake ninja-build"),
        ("arch", "pacman -S cmake ninja"),
        ("tumbleweed", "zypper install cmake ninja"),
        ("another", "install by hand (Debian's names): cmake ninja-build"),
    ],
)
def test_missing_programs_are_reported_before_the_build(tmp_path, system, line):
    (tmp_path / "bin").mkdir()
    for program in ("bash", "env", "sed", "grep", "tr", "dirname", "readlink"):
        (tmp_path / "bin" / program).symlink_to(shutil.which(program))
    for program in ("g++", "python3", "clang-format"):
        (tmp_path / "bin" / program).symlink_to(shutil.which("true"))
    done = subprocess.run(
        [ROOT / "dev", "deps"],
        capture_output=True,
        text=True,
        env=environment(tmp_path, system, PATH=str(tmp_path / "bin")),
    )
    assert (done.returncode, done.stderr) == (1, f"dev: packages are missing: {line}\n")
