"""Tests of the names that ./dev test takes: the tests that they select, and the message for an unknown name."""

import json
import os
import pathlib
import re
import subprocess
import sys

import names
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
TESTS = names.read(ROOT)


def select(name, start=ROOT):
    return names.select(TESTS, name, ROOT, start)


def files(name, start=ROOT):
    return {t.file for t in select(name, start)}


def test_a_component_or_its_binary_selects_all_its_tests():
    plan = select("plan")
    assert len(plan) > 50 and plan == select("plan_test") and {t.component for t in plan} == {"plan"}
    assert all(f.startswith("karez/plan/") for f in files("plan"))
    assert {t.component for t in select("python")} == {"python"} and "tests/run_test.py" in files("python")


def test_a_file_is_named_by_its_path_or_its_stem():
    assert (
        files("karez/plan/text_test.cc")
        == {"karez/plan/text_test.cc"}
        == files("text_test.cc", ROOT / "karez/plan")
        == files(str(ROOT / "karez/plan/text_test.cc"))
    )
    assert files("text_test") >= {"karez/plan/text_test.cc", "karez/graph/text_test.cc"}
    assert (
        files("python/tests/test_amp.py") == files("test_amp") == files("test_amp.py") == {"python/tests/test_amp.py"}
    )
    assert files("tools/karez/cli_test.cc") == {"tools/karez/cli_test.cc"} and {
        t.program for t in select("tools/karez/cli_test.cc")
    } == {"command_test"}


def test_suites_and_tests_are_named_in_full_or_by_a_pattern():
    assert {t.name.split(".")[0] for t in select("Ports")} == {"Ports"}
    (one,) = select("Ports.AFullInputWaitsWhileNoOutputSlotIsFree")
    assert one.program == "plan_test" and select("Ports.AFullInput*") == [one] == select(
        "plan_test:Ports.AFullInputWaitsWhileNoOutputSlotIsFree"
    )
    assert len(select("*AFull*")) >= 1 and select("AFull") == []
    (one,) = select("test_at_most_slots_batches_are_prefetched")
    assert one.file == "python/tests/test_prefetch.py" and select(
        "python.tests.test_prefetch.test_at_most_slots_batches_are_prefetched"
    ) == [one]
    assert (
        select("python/tests/test_prefetch.py::test_at_most_slots_batches_are_prefetched")
        == [one]
        == select("test_at_most_slots*")
    )


def test_one_instance_of_a_test_with_parameters_is_selected():
    (one,) = select("Meshes/PlannedCounts.PlannedBytesAndMessagesEqualCountedBytesAndMessages/3")
    assert one.name == "PlannedCounts.PlannedBytesAndMessagesEqualCountedBytesAndMessages" and names.is_instance(
        "Meshes/PlannedCounts.PlannedBytesAndMessagesEqualCountedBytesAndMessages/3"
    )
    assert (
        not names.is_instance("PlannedCounts.Planned")
        and not names.is_instance("karez/plan/text_test.cc")
        and not names.is_instance("plan_test:Ports.AFull")
    )
    chosen = {("system_test", "A.B"), ("system_test", "C.D")}
    assert names.is_one_of("system_test:M/A.B/3", chosen, ["M/A.B/3"]) and not names.is_one_of(
        "system_test:M/A.B/4", chosen, ["M/A.B/3"]
    )
    assert names.is_one_of("system_test:M/A.B/4", chosen, []) and names.is_one_of(
        "system_test:C.D", chosen, ["M/A.B/3"]
    )
    assert not names.is_one_of("plan_test:A.B", chosen, []) and names.is_one_of("system_test:C.D<1>", chosen, [])


def test_an_unknown_name_lists_similar_names_and_components():
    assert select("plann") == []
    text = names.unknown(TESTS, "plann")
    assert text.startswith("unknown test 'plann'\nsimilar: plan, ")
    assert (
        "\ncomponents: api, base, bench, comm, command, components, control, data, device, fuzz, graph, kernels, ops, "
        "passes, plan, python, report, runtime, " in text
    )
    assert "Ports.AFullInputWaitsWhileNoOutputSlotIsFree" in names.unknown(TESTS, "afullinput")
    assert "similar" not in names.unknown(TESTS, "q9")


def test_the_command_rejects_an_unknown_name_before_it_builds(tmp_path):
    environment = os.environ | {"KAREZ_BUILD": str(tmp_path / "build")}
    done = subprocess.run([ROOT / "dev", "test", "Ports", "plann"], capture_output=True, text=True, env=environment)
    assert (
        done.returncode == 1
        and done.stdout == ""
        and "unknown test 'plann'" in done.stderr
        and "components: api," in done.stderr
    )
    assert not (tmp_path / "build").exists()


def test_the_test_binaries_equal_those_that_cmake_builds():
    build = ROOT / os.environ.get("KAREZ_BUILD", "build")
    if not (build / "compile_commands.json").exists():
        pytest.fail(f"{build} is not configured: ./dev build")
    built = {}
    for row in json.loads((build / "compile_commands.json").read_text()):
        file = os.path.relpath(row["file"], ROOT)
        if file.endswith("_test.cc"):
            built[file] = re.search(r" -o CMakeFiles/(\w+)[.\w]*\.dir/", row["command"])[1]
    assert {t.file: t.program for t in TESTS if t.component != "python"}.items() <= built.items()


def test_targets_of_pytest_files_are_built():
    assert names.builds(ROOT, ["tests/op_reference_test.py"]) == ["op_values"]
    assert names.builds(ROOT, ["python/tests/test_package.py"]) == ["karez_python", "karez_stubs", "karez_command"]
    text = (ROOT / "CMakeLists.txt").read_text()
    for target in names.builds(ROOT, {t.file for t in TESTS if t.component == "python"}):
        name = target.removeprefix("bench_")
        folders = ["bench"] if target.startswith("bench_") else ["tools", "examples"]
        assert (
            target in ("all", "karez_python", "karez_stubs")
            or f"add_executable({target} " in text
            or any((ROOT / f / f"{name}.cc").exists() for f in folders)
        )


def test_help_describes_every_option():
    out = subprocess.run(
        [sys.executable, ROOT / "tools/testing/run.py", "--help"], capture_output=True, text=True, check=True
    ).stdout
    options_named = re.findall(r"^  (--[a-z]+)", out, re.M)
    assert len(options_named) >= 8 and options_named == re.findall(
        r"^  (--[a-z]+)\S*(?: [^ ]+)*(?:  +|\n {10,})\w", out, re.M
    ), out
