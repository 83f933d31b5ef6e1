"""Lists all tests by reading the sources, and finds those that a name given to ./dev test selects."""

import difflib
import fnmatch
import pathlib
import re
import typing

GTEST = re.compile(r"^(TYPED_)?TEST(_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)", re.M)
PYTEST = re.compile(r"^(?:async )?def (test_\w*)", re.M)
BUILDS = re.compile(r"^# builds: (.+)$", re.M)


class Test(typing.NamedTuple):
    name: str  # Suite.Test, or a pytest function
    file: str  # from the root of the repository
    component: str  # plan, system, ...; python for pytest
    program: str  # the test binary, such as plan_test; for pytest the file

    @property
    def full_name(self):
        """The name in results and in tests/allowed_skips.txt, without test parameters."""
        return self.file[:-3].replace("/", ".") + "." + self.name if self.component == "python" else self.name


def component_of(file):
    """The component whose test binary contains a C++ test file, by the rules of CMakeLists.txt: karez/plan/text_test.cc
    -> plan."""
    folder = file.removeprefix("karez/").split("/")[0]
    if folder == "tools":
        return "command"
    if folder == "tests":
        return (
            "fuzz"
            if file.startswith("tests/fuzz/")
            else "components"
            if file == "tests/components_test.cc"
            else "system"
        )
    return folder


def sources(root):
    """The test files, relative to the root of the repository."""
    folders = [
        f
        for f in root.iterdir()
        if f.is_dir() and not f.name.startswith((".", "build", "dist")) and f.name not in ("docs", "examples")
    ]
    for folder in sorted(folders):
        for path in sorted(folder.rglob("*_test.cc")):
            yield str(path.relative_to(root))
    for path in sorted([*(root / "python/tests").glob("test_*.py"), *(root / "tests").glob("*_test.py")]):
        yield str(path.relative_to(root))


def read(root):
    """All tests of the repository."""
    tests = []
    for file in sources(root):
        text = (root / file).read_text()
        if file.endswith(".py"):
            tests += [Test(name, file, "python", file) for name in PYTEST.findall(text)]
            continue
        component = component_of(file)
        program = component + ("_timing_test" if file.endswith("_timing_test.cc") else "_test")
        for _, _, suite, name in GTEST.findall(text):
            if not name.startswith("DISABLED_"):
                tests.append(Test(f"{suite}.{name}", file, component, program))
    return tests


def builds(root, files):
    """The CMake targets that pytest files use: the package for python/tests, and the targets that a line such as
    "# builds: karez_command" names."""
    targets = []
    for file in files:
        if file.startswith("python/"):
            targets += ["karez_python", "karez_stubs"]
        for line in BUILDS.findall((root / file).read_text()):
            targets += line.split()
    return list(dict.fromkeys(targets))


def _plain(name):
    """The name in the sources for the name in a result: plan_test:Meshes/PlannedCounts.Planned/0 ->
    PlannedCounts.Planned."""
    name = re.sub(r"^\w+_test:", "", name)
    name = re.sub(r"^\w+/(?=\w+\.)", "", name)
    return re.sub(r"(/\w+|<\d+>|\[.*\])$", "", name)


def is_instance(name):
    """Whether a name is the name of one instance of a test with parameters: Meshes/PlannedCounts.Planned/0."""
    return "/" in name and not name.endswith(".cc") and _plain(name) != re.sub(r"^\w+_test:", "", name)


def is_one_of(name, chosen, exact):
    """Whether CTest's name of a test is in `chosen`, which has pairs of program and name. If `exact` names instances of
    the test, only these match."""
    program, _, instance = name.partition(":")
    plain = _plain(name)
    if (program, plain) not in chosen:
        return False
    described = [e for e in exact if _plain(e) == plain]
    return not described or any(fnmatch.fnmatchcase(name, e) or fnmatch.fnmatchcase(instance, e) for e in described)


def _test_is(test, name):
    suite = test.name.split(".")[0]
    return any(fnmatch.fnmatchcase(test_name, name) for test_name in (test.name, suite, test.full_name))


def select(tests, name, root, start):
    """The tests that a name selects: a component, a test binary, a test file or its stem, a suite, a test, or a pattern
    with *."""
    file, _, function = name.partition("::")
    for folder in (start, root):
        path = (folder / file).resolve()
        if path.is_file() and path.is_relative_to(root):
            found = [t for t in tests if t.file == str(path.relative_to(root))]
            return [t for t in found if not function or t.name == _plain(function)]
    found = [
        t
        for t in tests
        if name in (t.component, t.program, pathlib.PurePath(t.file).stem, pathlib.PurePath(t.file).name)
    ]
    return found or [t for t in tests if _test_is(t, name)] or [t for t in tests if _test_is(t, _plain(name))]


def unknown(tests, name):
    """The message for a name that selects no test."""
    suites = {t.name.split(".")[0] for t in tests if t.component != "python"}
    known_names = (
        {t.component for t in tests} | {pathlib.PurePath(t.file).stem for t in tests} | suites | {t.name for t in tests}
    )
    similar = difflib.get_close_matches(name, known_names, n=5, cutoff=0.6)
    similar += sorted(k for k in known_names if len(name) > 3 and name.lower() in k.lower() and k not in similar)[
        : 5 - len(similar)
    ]
    lines = [f"unknown test '{name}'"]
    if similar:
        lines.append("similar: " + ", ".join(similar))
    lines.append("components: " + ", ".join(sorted({t.component for t in tests})))
    lines.append(
        "a name is one of these, a test file, a suite, a test, or a pattern with *: ./dev test plan 'Ports.*' "
        "test_prefetch"
    )
    return "\n".join(lines)
