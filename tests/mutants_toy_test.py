"""Tests ./dev mutants on a toy project: maps, faults, verdicts, stored results and invalid input."""

import json
import pathlib
import re
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from tools.mutants import __main__ as command, places, suites  # noqa: E402

# A component with a library and a test binary, which takes GTest's options.
TOY = {
    "CMakeLists.txt": """cmake_minimum_required(VERSION 3.25)
project(toy LANGUAGES CXX)
include_directories(${CMAKE_SOURCE_DIR})
add_library(karez_toy STATIC toy/clip.cc)
add_executable(toy_test toy/clip_test.cc)
target_link_libraries(toy_test karez_toy)
""",
    "toy/clip.h": "// Clips.\n#pragma once\nint clip(int a);\nint unseen(int a);\nvoid wait_for(int& a);\n",
    "toy/clip.cc": """// Clips.
#include "toy/clip.h"
int clip(int a) {
  if (a < 3) return a;
  return 7;
}
int unseen(int a) {
  return a + 1;
}
void wait_for(int& a) {
  for (volatile int i = 0; i < 10; i = i + 1) {
    a = a + 0;
  }
}
""",
    "toy/clip_test.cc": """// Tests of clip.
#include <cstdio>
#include <cstring>

#include "toy/clip.h"
int main(int count, char** words) {
  const char* filter = "--gtest_filter=*";
  for (int i = 1; i < count; ++i) {
    if (!std::strcmp(words[i], "--gtest_list_tests"))
      return std::puts("Clip.\\n  Clips\\nWaits.\\n  Ends\\nOff.\\n  DISABLED_Off"), 0;
    if (!std::strncmp(words[i], "--gtest_filter=", 15)) filter = words[i];
  }
  int a = 1;
  if (std::strstr(filter, "Waits")) wait_for(a);
  const bool wrong = std::strstr(filter, "Clip") && (clip(2) != 2 || clip(5) != 7);
  if (wrong) std::puts("[  FAILED  ] Clip.Clips");
  return wrong || a != 1;
}
""",
    command.EQUIVALENTS_FILE: "# None.\n",
}
FAULTS = {  # the faults of each line of toy/clip.cc
    "  if (a < 3) return a;": [
        "  if (a <= 3) return a;",
        "  if (a < 2) return a;",
        "  if (a < three) return a;",
        "  if (a < 3 + 0) return a;",
    ],
    "  return a + 1;": ["  return a - 1;"],
    "  for (volatile int i = 0; i < 10; i = i + 1) {": ["  for (volatile int i = 0; i < 10; i = i + 0) {"],
}


@pytest.fixture
def toy(tmp_path, monkeypatch, capsys):
    """A function that runs ./dev mutants on a toy project with the faults of FAULTS, and returns the exit code and the
    output."""
    for name, text in TOY.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    table = "tools/mutants/coverage_table.cc"
    (tmp_path / table).parent.mkdir(parents=True)
    (tmp_path / table).write_text((ROOT / table).read_text())
    (tmp_path / ".gitignore").write_text("/build*/\n")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    monkeypatch.setattr(command, "ROOT", tmp_path)
    monkeypatch.setattr(command, "WORK_FOLDER", tmp_path / "build-mutants")
    monkeypatch.setattr(suites.Suite, "busy", 1)
    monkeypatch.setattr(command, "generator", lambda: lambda line, suffix: FAULTS.get(line, []))

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["mutants", *words])
        try:
            code = command.main()
        except places.MutantsError as wrong:
            return 1, str(wrong)
        return code, capsys.readouterr().out

    run.root = tmp_path
    return run


def verdicts(root):
    (path,) = (root / "build-mutants" / "runs").glob("*.jsonl")
    return {row["new"].strip(): row for row in map(json.loads, path.read_text().splitlines())}


def test_a_fault_after_which_a_function_is_missing_does_not_count(toy, monkeypatch):
    faults = {"void wait_for(int& a) {": ["void wait_for(long& a) {"], "  return 7;": ["  return 8;"]}
    monkeypatch.setattr(sys.modules[__name__], "FAULTS", faults)
    out = toy("toy", "2", "--seed", "1")[1]
    kinds = {new: row["result"] for new, row in verdicts(toy.root).items()}
    assert kinds == {"void wait_for(long& a) {": "invalid", "return 8;": "noticed"}, out
    assert "the object does not define _Z8wait_forRi any more" in out


def test_the_faults_of_a_toy_project_are_judged_end_to_end(toy):
    code, out = toy("toy", "3", "--seed", "3")
    assert code == 1, out
    found = verdicts(toy.root)
    kinds = {new: row["result"] for new, row in found.items()}
    assert kinds == {
        "if (a < three) return a;": "invalid",
        "if (a < 3 + 0) return a;": "same code",
        "if (a <= 3) return a;": "missed",
        "return a - 1;": "not run",
        "for (volatile int i = 0; i < 10; i = i + 0) {": "noticed",
    }
    assert found["for (volatile int i = 0; i < 10; i = i + 0) {"]["by"] == "Waits (toy_test) hung twice"
    assert (
        "toy/clip.cc:8: MISSED, no test runs the line" in out and "does not compile: 'three' was not declared" in out
    ), out
    assert re.search(r"^\| toy \| 3 \| 1 \| 1 \| 1 \| 1 \| 1 \| 0 \|", out, re.M), out

    # A second run judges no fault again; an interrupted run continues.
    (record,) = (toy.root / "build-mutants" / "runs").glob("*.jsonl")
    rows = record.read_text().splitlines()
    assert toy("toy", "3", "--seed", "3")[0] == 1 and record.read_text().splitlines() == rows
    record.write_text("\n".join(rows[:1]) + "\n" + rows[1][:20])
    assert "faults of this draw with a stored verdict: 1" in toy("toy", "3", "--seed", "3")[1]
    resumed = [json.loads(row) for row in record.read_text().splitlines()[2:]]  # after the truncated row
    assert {row["new"].strip(): row["result"] for row in resumed} == dict(list(kinds.items())[1:])

    # Equivalent faults do not count; a row of their list that matches no line is rejected.
    (toy.root / command.EQUIVALENTS_FILE).write_text(
        "file toy/clip.cc\n- if (a < 3) return a;\n+ if (a <= 3) return a;\nwhy 3 never occurs\n"
    )
    code, out = toy("toy", "3", "--seed", "3")
    assert "toy/clip.cc:4: is on the list of equivalents" in out and "toy/clip.cc:4: noticed by Clip.Clips" in out, out
    assert re.search(r"^\| toy \| 3 \| 2 \| 0 \| 1 \| 1 \| 1 \| 1 \|", out, re.M), out
    (toy.root / command.EQUIVALENTS_FILE).write_text(
        "file toy/clip.cc\n- if (a < 4) return a;\n+ if (a <= 3) return a;\nwhy none\n"
    )
    assert "has the line 0 times" in toy("toy", "3")[1]


def test_a_stored_map_follows_edits_and_is_measured_again_after_a_day(toy):
    place = toy.root / "build-mutants" / "coverage" / "toy_test.json"
    assert "measuring 2 suites of toy_test" in toy("toy", "1", "--seed", "1", "--own")[1]
    stored = json.loads(place.read_text())
    assert stored["lines"]["toy/clip.cc"] == [3, 4, 5, 6, 7, 8, 9, 10, 11, 14]
    ran = {name: suite["lines"]["toy/clip.cc"] for name, suite in stored["suites"].items()}
    assert ran == {"Clip": [3, 4, 5, 6], "Waits": [10, 11, 14]}, ran

    assert "measuring" not in toy("toy", "1", "--seed", "1", "--own")[1]
    source = toy.root / "toy" / "clip.cc"
    source.write_text(source.read_text().replace("int unseen", "// Another line.\nint unseen"))
    out = toy("toy", "1", "--seed", "1", "--own")[1]
    assert "measuring" not in out and "on another tree; its lines are mapped to this tree" in out
    tests = toy.root / "toy" / "clip_test.cc"
    tests.write_text(tests.read_text().replace("nOff.", "nMore.\\n  One\\nOff."))
    assert "measuring 1 suites of toy_test" in toy("toy", "1", "--seed", "1", "--own")[1]
    second_record = json.loads(place.read_text())
    ran = {name: suite["lines"].get("toy/clip.cc") for name, suite in second_record["suites"].items()}
    assert ran["Clip"] == [3, 4, 5, 6, 7] and ran["Waits"] == [11, 12, 15] and "More" in ran
    assert second_record["made"] == stored["made"]
    place.write_text(json.dumps(second_record | {"made": time.time() - 25 * 3600}))
    assert "measuring" not in toy("toy", "1", "--seed", "1", "--own")[1]  # old, but of this tree
    source.write_text(source.read_text() + "// The end.\n")
    assert "measuring 3 suites" in toy("toy", "1", "--seed", "1", "--own")[1]


def test_invalid_input_is_reported_before_the_build(toy):
    assert toy("toy", "0") == (1, "the number of faults must be at least 1, got 0")
    assert "no sources in 'top'; expected one of these folders, or a file in one: toy" in toy("top", "3")[1]
    assert not (toy.root / "build-mutants").exists()
