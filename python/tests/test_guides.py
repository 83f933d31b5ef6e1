"""Every code block of the documentation runs and prints the output shown below it, or is listed with a reason."""

# builds: karez_command
import os
import pathlib
import re
import subprocess

import pytest
from code_blocks import NOT_RUN, PAGES, ROOT, blocks_of, lines_match, quoted_file, reason_not_run
from pins import golden_in

import karez as kz

DOCS = ROOT / "docs"
TOOLS = ROOT / os.environ.get("KAREZ_BUILD", "build") / "tools"
LINKS = re.compile(r"\]\(([^)#:]*)(?:#([^)]*))?\)")
CODE = re.compile(r"^```.*?^```$|`[^`]*`", re.M | re.S)
GUIDES = [page for page in PAGES if blocks_of(page)]


def run_shell(commands: str) -> str:
    """Runs shell commands with the `karez` of this build and returns their output."""
    environment = {**os.environ, "KAREZ_SOURCE": str(ROOT), "PATH": f"{TOOLS}:{os.environ['PATH']}"}
    bash = ["bash", "-e", "-o", "pipefail", "-c", commands]
    done = subprocess.run(
        bash, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, env=environment
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize("guide", GUIDES)
def test_every_block_runs_and_prints_the_output_below_it(guide, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))  # a block saves a cost table
    kz.init(devices=4)
    names, output, last_language = {}, "", ""
    for block in blocks_of(guide):
        where = f"{guide}:{block.line}"
        if reason_not_run(guide, block) or block.language in ("cpp", "cmake"):  # the next test checks C++ and CMake
            continue
        if block.language == "python":
            exec(compile(block.body, pathlib.Path(guide).name, "exec"), names)
            output, last_language = capsys.readouterr().out, "python"
        elif block.language == "sh":
            output, last_language = run_shell(block.body), "sh"
        else:
            assert block.language == "text" and output, f"{where} is neither run nor listed in NOT_RUN"
            if last_language == "python":
                assert golden_in(ROOT / guide, output, block.body)
            else:
                assert lines_match(block.body, output), f"{where} differs from the output:\n{output}"
            output = ""


@pytest.mark.parametrize("guide", GUIDES)
def test_every_quotation_of_source_code_is_in_the_file_named_above_it(guide):
    for block in blocks_of(guide):
        if block.language not in ("cpp", "cmake") or reason_not_run(guide, block):
            continue
        if guide == "README.md":  # tests/install_test.py compiles and runs the program
            assert 'r"```cpp\\n(#include.*?)```"' in (ROOT / "tests/install_test.py").read_text()
            assert block.body.startswith("#include")
            continue
        source = quoted_file(block)
        assert source and source.exists(), f"no file is named above {guide}:{block.line}"
        text, position = source.read_text(), 0
        for part in block.body.split("...\n"):
            position = text.find(part.rstrip("\n "), position)
            assert position >= 0, f"{guide}:{block.line} quotes code that is not in {source.relative_to(ROOT)}:\n{part}"


def test_every_listed_block_and_every_test_named_in_a_reason_exists():
    existing = {(page, text) for page, text in NOT_RUN for block in blocks_of(page) if block.body.startswith(text)}
    assert existing == set(NOT_RUN)
    paths = {path for reason in NOT_RUN.values() for path in re.findall(r"tests/\w+\.\w+", reason)}
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_code_block_has_a_fence_with_a_language(page):
    text = (ROOT / page).read_text()
    assert [f"{page}:{block.line}" for block in blocks_of(page) if not block.language] == []
    assert text.count("```") == 2 * len(blocks_of(page))
    outside = re.sub(r"^```(\w*)\n(.*?)^```$", "", text, flags=re.M | re.S)
    assert re.findall(r"^\n {4}.*", outside, re.M) == []


def test_the_options_of_listed_commands_exist():
    helps = {}
    for page in GUIDES:
        for block in blocks_of(page):
            if block.language != "sh":
                continue
            for command in re.findall(
                r"(?:^|\s)karez ((?:plan |flight )?[a-z]+)( [^#\n]*)?", re.sub(r"#.*", "", block.body)
            ):
                name, arguments = command
                helps.setdefault(name, run_shell(f"karez {name} --help"))
                for option in re.findall(r"(?<![\w-])(-n|--[a-z]+)\b", arguments):
                    assert option in helps[name], f"{page}:{block.line}: karez {name} has no option {option}"
    assert len(helps) >= 5


def headings(path: pathlib.Path) -> set:
    """Returns the anchors of the headings of a page."""
    lines = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-") for line in lines}


@pytest.mark.parametrize("page", PAGES)
def test_links_of_the_pages_have_targets(page):
    path = ROOT / page
    for target, heading in LINKS.findall(CODE.sub("", path.read_text())):
        linked = path.parent / target if target else path
        assert linked.exists(), target
        assert not heading or heading in headings(linked), f"{target}#{heading}"


@pytest.mark.parametrize("page", PAGES)
def test_files_that_the_pages_name_exist(page):
    """Checks the paths in backticks that have a suffix; a name in capitals is a placeholder."""
    paths = re.findall(
        r"`((?:karez|docs|tests|tools|python|bench|examples|cmake)/[\w./-]+\.\w+)`", (ROOT / page).read_text()
    )
    assert [path for path in paths if not re.search(r"[A-Z]{3}", path) and not (ROOT / path).exists()] == []


def test_tables_of_the_pages_are_narrow():
    wide_rows = [
        f"{page}:{number}"
        for page in PAGES
        for number, line in enumerate((ROOT / page).read_text().split("\n"), 1)
        if line.startswith("|") and len(line) > 100
    ]
    assert wide_rows == []


def test_the_errors_of_the_guide_to_layouts_occur():
    names = {}
    for block in blocks_of("docs/layouts.md"):
        if block.language == "python":
            exec(compile(block.body, "layouts.md", "exec"), names)
    with pytest.raises(kz.Error, match="is on mesh"):
        names["unstaged"](names["v"])
