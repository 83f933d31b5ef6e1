"""Tests of `karez opt`, which runs passes on the text of a graph."""

# builds: karez_command
import re

import pytest
from karez_command import DATA, USER, karez

GRAPH = """graph main mesh(data=2, model=2) {
  variable "w" : f32[4, 6] read %1 updated %9
  %0 = input() {dtype="f32", name="x", shape=[8, 6]} : f32[8@data, 6] at "net.cc:3"
  %1 = variable() {dtype="f32", name="w", shape=[4, 6]} : f32[4, 6]
  %2 = matmul(%0, %1) {transpose_b=true} : f32[8, 4] in "fc" at "net.cc:4"
  %3 = relu(%2) : f32[8, 4] in "fc" at "net.cc:4"
  %4 = matmul(%0, %1) {transpose_b=true} : f32[8, 4] in "fc" at "net.cc:5"
  %5 = exp(%4) : f32[8, 4] at "net.cc:5"
  %6 = add(%3, %4) : f32[8, 4] at "net.cc:6"
  %9 = add(%1, %1) : f32[4, 6] at "net.cc:7"
  output "y" %6
}
"""


@pytest.fixture
def graph(tmp_path):
    path = tmp_path / "net.graph"
    path.write_text(GRAPH)
    return path


def test_opt_runs_the_named_passes(graph):
    message = karez("opt", graph, "--passes", "canonicalise")
    assert message.count("matmul(") == 1, "the second product equals the first and must be merged with it"
    assert "exp(" not in message, "an op with an unused result must be removed"
    assert "after n" not in message and "box(" not in message
    ordered = karez("opt", graph)
    assert re.search(r'= box\(%\d+\) \{axis=\d, from=".*", move="all_gather", to="B"\}', ordered)
    assert '} : f32[8@data, 6] at "net.cc:3"' in ordered.replace("f32[8@data, 6;]", "f32[8@data, 6]"), (
        "a layout in the text must be kept"
    )


def test_opt_can_read_its_own_output(graph):
    once = karez("opt", graph, "--passes", "canonicalise")
    assert karez("opt", "-", "--passes", "canonicalise", stdin=once) == once
    boxed = karez("opt", graph, "--passes", "shard,box,order")
    assert karez("opt", "-", "--passes", "canonicalise", stdin=boxed).startswith("graph main mesh(data=2, model=2) {\n")


def test_opt_prints_the_result_of_each_pass(graph):
    message = karez("opt", graph, "--passes", "all", "--each")
    names = re.findall(r"^# after (\w+), \d+\.\d+ ms", message, re.M)
    assert names[0] == "unroll" and names[-1] == "memory" and len(names) == len(set(names)) > 10
    assert re.search(
        r"^# after shard, \S+ ms: calls and transfers of \S+ us a launch, predicted with default costs \(`karez "
        r"doctor --kernels --save` measures this machine\); optimal",
        message,
        re.M,
    )
    parts = re.split(r"^# after .*\n", message, flags=re.M)[1:]
    assert parts[names.index("shard")] == karez("opt", graph, "--passes", "canonicalise,shard")
    assert parts[-1] == karez("opt", graph, "--passes", "all")


def test_a_plan_of_opt_is_valid_and_gives_the_result_of_one_device(graph, tmp_path):
    outputs = set()
    for mesh in ("", "data=2", "data=2, model=2"):
        text = GRAPH.replace("mesh(data=2, model=2)", f"mesh({mesh})").replace(
            "8@data, 6", "8, 6" if mesh == "" else "8@data, 6"
        )
        plan = tmp_path / "made.plan"
        plan.write_text(karez("opt", "-", "--passes", "all", stdin=text))
        assert "valid" in karez("plan", "verify", plan)
        message = karez("exec", plan, "--launches", 1)
        outputs.add(re.search(r"\n  y (f32\[8, 4\] = \S+, \S+, \S+), \.\.\.", message).group(1))
    assert len(outputs) == 1


MODULES = """graph main {
  variable "w" : f32[4, 4] read %1
  %0 = input() {dtype="f32", name="x", shape=[2, 4]} : f32[2, 4]
  %1 = variable() {dtype="f32", name="w", shape=[4, 4]} : f32[4, 4]
  %2 = matmul(%0, %1) : f32[2, 4] in "net.one"
  %3 = tanh(%2) : f32[2, 4] in "net.one"
  %4 = matmul(%3, %1) : f32[2, 4] in "net.two"
  %5 = tanh(%4) : f32[2, 4] in "net.two"
  %6 = exp(%4) : f32[2, 4] in "net.two.grad"
  %7 = mul(%6, %2) : f32[2, 4] in "net.one.grad"
  output "y" %5
  output "g" %7
}
"""


def test_a_plan_with_recomputed_modules_gives_the_same_result(tmp_path):
    outputs = set()
    for globs, products in (("", 2), ("net.one", 3), ("net.{one,two}", 4)):
        plan = tmp_path / "made.plan"
        plan.write_text(karez("opt", "-", "--passes", "all", "--remat", globs, stdin=MODULES))
        assert len(re.findall(r'^  call "[^"]*matmul', plan.read_text(), re.M)) == products
        outputs.add("".join(re.findall(r"\n  [yg] f32\[2, 4\] = .*", karez("exec", plan, "--launches", 1))))
    assert len(outputs) == 1 and outputs.pop().count("f32[2, 4]") == 2


@pytest.mark.parametrize(
    "passes, text",
    [
        ("shrd", "unknown pass 'shrd'; "),
        ("", "--passes '': a name is empty\n"),
        ("shard,,box", "--passes 'shard,,box': a name is empty\n"),
        ("box", "--passes 'box': box needs data that shard keeps outside of the graph; add shard\n"),
        ("shard,order", "--passes 'shard,order': order needs data that box keeps outside of the graph; add box\n"),
        (
            "shard,canonicalise",
            "--passes 'shard,canonicalise': canonicalise comes before shard in the pipeline; the only order is "
            "unroll, canonicalise, ",
        ),
        ("shard,shard", "--passes 'shard,shard': shard comes before shard in the pipeline; "),
    ],
)
def test_opt_rejects_an_invalid_list_of_passes(passes, text, graph):
    assert karez("opt", graph, "--passes", passes, code=USER).startswith("karez: " + text)


@pytest.mark.parametrize(
    "old, new, text",
    [
        ("relu(%2)", "rleu(%2)", "graph: line 6, column 8: unknown op 'rleu'; "),
        ("add(%1, %1) : f32[4, 6]", "add(%1, %1) : f32[4, 7]", ""),
        ("f32[8@data, 6]", "f32[8@pipe, 6]", ""),
        ("relu(%2)", "relu(%7)", ""),
        ("}\n", "", ""),
    ],
)
def test_opt_names_the_file_with_an_invalid_graph(old, new, text, graph):
    assert old in GRAPH
    graph.write_text(GRAPH.replace(old, new, 1) if old != "}\n" else GRAPH[:-2])
    assert karez("opt", graph, code=DATA).startswith(f"karez: {graph}: {text}")


def test_opt_does_not_shard_a_boxed_program(graph):
    boxed = karez("opt", graph)
    message = karez("opt", "-", "--passes", "shard", stdin=boxed, code=USER)
    assert re.match(
        r"karez: -: box at net\.cc:\d \(?.*is a change of layout that box has inserted; shard must run before box\n",
        message,
    )
