"""Tests of `cmake --install`: an external program with its own op builds with the installed headers, libraries and
package."""

# builds: all
import os
import re
import subprocess

import pytest

pytestmark = pytest.mark.xdist_group("install")  # its fixtures are slow

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, os.environ.get("KAREZ_BUILD", "build"))


def run(*words, **more):
    return subprocess.run(words, capture_output=True, text=True, timeout=300, **more)


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """The installed folder. It was moved after the installation, to detect files that contain the original path."""
    folder = tmp_path_factory.mktemp("installed")
    installed = run("cmake", "--install", BUILD, "--prefix", str(folder / "first"))
    assert installed.returncode == 0, installed.stdout + installed.stderr
    os.rename(folder / "first", folder / "moved")
    return folder / "moved"


@pytest.fixture(scope="module")
def external_program(prefix, tmp_path_factory):
    """The programs of tests/external_project and of README.md, built by a separate CMake project."""
    folder = tmp_path_factory.mktemp("outside")
    with open(os.path.join(ROOT, "README.md")) as readme:
        (program,) = re.findall(r"```cpp\n(#include.*?)```", readme.read(), re.S)
    (folder / "readme.cc").write_text(program)
    begin = [
        "-G",
        "Ninja",
        "-S",
        os.path.join(ROOT, "tests", "external_project"),
        "-B",
        folder,
        f"-DCMAKE_PREFIX_PATH={prefix}",
        f"-DREADME={folder / 'readme.cc'}",
    ]
    for words in (begin, ["--build", folder]):
        installed = run("cmake", *map(str, words))
        assert installed.returncode == 0, installed.stdout + installed.stderr
    return str(folder / "external_program")


def test_no_installed_file_contains_the_path_of_the_build(prefix):
    texts = [path for path in prefix.rglob("*") if path.suffix in (".h", ".cmake")]
    assert len(texts) > 40
    for path in texts:
        text = path.read_text().replace("lib/cmake/karez", "")  # the path of the package, also if the clone is /karez
        assert ROOT not in text and BUILD not in text and str(prefix.parent) not in text, path


def test_headers_include_each_other_by_their_installed_paths(prefix):
    include = prefix / "include"
    assert (include / "karez" / "karez.h").exists()
    headers = {str(path.relative_to(include)) for path in include.rglob("*.h")}
    for header in headers:
        text = (include / header).read_text()
        for name in re.findall(r'#include "([^"]+)"', text):
            assert name in headers, f"{header} includes {name}"


def test_only_public_headers_are_installed(prefix):
    components = {path.name for path in (prefix / "include" / "karez").iterdir()}
    assert components == {"karez.h", "api", "base", "tensor", "sbp", "graph", "plan", "device", "data", "kernels"}
    for component, files in (
        ("api/profile", ["profile.h"]),
        ("device", ["host_array.h", "namespace.h"]),
        (
            "data",
            [
                "coroutine.h",
                "creation_line.h",
                "dataset.h",
                "formats",
                "formats.h",
                "image_folder.h",
                "image_functions.h",
                "images.h",
                "labelled_images.h",
                "namespace.h",
                "source.h",
                "stages",
                "wav.h",
            ],
        ),
        ("data/formats", ["byte_stream.h"]),
        ("data/stages", ["element.h", "stage_scope.h", "stream_state.h"]),
        ("kernels", ["kernel.h", "namespace.h"]),
    ):
        assert sorted(os.listdir(prefix / "include" / "karez" / component)) == files
    assert not [path for path in prefix.rglob("*") if path.name == "inside" or path.name.startswith("test_")]


def test_the_command_runs_after_it_was_moved(prefix):
    ran = run(prefix / "bin" / "karez", "--help")
    assert ran.returncode == 0 and ran.stdout.startswith(
        "Starts programs as several processes; profiles programs; shows, checks"
    ), ran


def test_a_program_outside_the_tree_trains_with_its_own_op_and_kernel(external_program):
    trained = run(external_program)
    assert trained.returncode == 0, trained.stdout + trained.stderr
    assert re.fullmatch(r"loss from \d\.\d+ to \d\.\d+, largest difference \d\.\de[-+]\d+\n", trained.stdout), (
        trained.stdout
    )


def test_the_program_of_the_readme_prints_the_losses_of_the_readme(external_program):
    trained = run(os.path.join(os.path.dirname(external_program), "readme"))
    assert trained.returncode == 0, trained.stdout + trained.stderr
    losses = [float(line) for line in trained.stdout.split()]
    with open(os.path.join(ROOT, "README.md")) as readme:
        (expected,) = re.findall(r"It prints the loss of three steps: ([\d., ]+)\.\n", readme.read())
    assert losses == pytest.approx([float(word) for word in expected.split(", ")], abs=2e-3), trained.stdout


def test_an_op_with_the_name_of_a_built_in_op_is_rejected(external_program):
    rejection = run(external_program, "taken")
    assert rejection.returncode == 64
    assert rejection.stderr == "WorldOptions::ops[0]: the name 'matmul' is already used by a built-in op\n"


def test_a_launch_with_invalid_data_ends_the_program_with_exit_code_77(external_program):
    rejection = run(external_program, "label")
    assert rejection.returncode == 77 and rejection.stdout == "", rejection.stdout
    assert re.search(
        r"external_program\.cc:\d+.*: cross_entropy's label 7 at \[3\] is outside 0 to 2", rejection.stderr
    ), rejection.stderr
