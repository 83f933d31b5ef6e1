"""Every report on the times of a plan uses the costs that are stored in the plan, and says if they are defaults."""

# builds: karez_command
import html
import os
import pathlib
import re
import subprocess

import numpy as np
import pytest
from test_plan_page import mlp, pipeline, transformer

import karez as kz
from karez import F, nn

KAREZ = pathlib.Path(__file__).resolve().parents[2] / os.environ.get("KAREZ_BUILD", "build") / "tools" / "karez"
CAUTION = " with default costs (`karez doctor --kernels --save` measures this machine)"
RATES = [
    "matmul.vector",
    "matmul.thin",
    "matmul.small",
    "matmul.square",
    "pointwise.l1",
    "pointwise.l2",
    "pointwise.l3",
    "reduce.l1",
    "index.l1",
    "move.l1",
    "update.l2",
    "functions",
]


def karez(*arguments, code=0):
    result = subprocess.run([KAREZ, *map(str, arguments)], capture_output=True, text=True, timeout=120)
    assert result.returncode == code, result
    return result.stderr if code else result.stdout


class Cnn(nn.Module):
    def __init__(self):
        self.conv1, self.conv2 = nn.Conv2d(1, 16, 3), nn.Conv2d(16, 32, 3)
        self.fc1, self.fc2 = nn.Linear(32 * 5 * 5, 128), nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


def demo():
    """The training step of ./dev demo."""
    net = Cnn()
    opt = kz.optim.Adam(net.parameters(), lr=2e-3)

    def step(x, y):
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        return loss

    step = kz.compile(step, mesh="data=2,model=2")
    step.compile(np.zeros((64, 1, 28, 28), np.float32), np.zeros(64, np.int32))
    return step


def one_device():
    f = kz.compile(lambda x: F.relu(x @ x), mesh="")
    f.compile(np.zeros((32, 32), np.float32))
    return f


PROGRAMS = {"demo": demo, "pipeline": pipeline, "mlp": mlp, "transformer": transformer, "one": one_device}
HEADINGS = {
    "one": "Critical cycle if launches run one at a time",
    "many": "Launches that overlap as far as slots allow",
}


def predicted(text):
    """The predicted time and the text after it, for each heading."""
    found = {}
    for name, heading in HEADINGS.items():
        lines = re.findall(rf"^{heading}: (\S+) us a launch, predicted(.*)$", text, re.M)
        assert len(lines) == 1, (heading, text)
        found[name] = lines[0]
    return found


def printed_seconds(step, folder, *costs):
    """All predictions for a plan: the times in each report with the text after them, and the line about costs."""
    plan = folder / "p.plan"
    step.plan.save(plan)
    page = html.unescape(re.sub(r"</?(h2|div|section|p)[^>]*>", "\n", step.plan._page.html()))
    simulated = karez("simulate", plan, *costs)
    figures = {
        "summary": predicted(step.summary()),
        "page": predicted(page),
        "explain": predicted(karez("plan", "explain", plan, *costs)),
    }
    figures["show"] = predicted(karez("plan", "show", "--summary", plan))
    one = {name: both["one"] for name, both in figures.items()}
    one["figure"] = re.search(
        r"<b>(\S+) us</b>a launch, predicted(.*)\n", html.unescape(step.plan._page.html()).replace("</div>", "\n")
    ).groups()
    one["simulate"] = re.match(r"plan '[^']*': (\S+) us a launch, predicted(.*)\n", simulated).groups()
    one["python"] = (f"{1e6 * step.predicted_seconds:.1f}", one["summary"][1])
    tables = {
        name: re.search(r"^(?:Times .* C|c)osts: (.*)$", text, re.M).group(1)
        for name, text in {
            "summary": step.summary(),
            "page": page,
            "explain": karez("plan", "explain", plan, *costs),
            "simulate": simulated,
        }.items()
    }
    return one, {name: both["many"] for name, both in figures.items()}, tables


@pytest.mark.parametrize("name", PROGRAMS)
def test_summary_page_explain_and_simulate_agree(name, tmp_path):
    one, many, tables = printed_seconds(PROGRAMS[name](), tmp_path)
    assert len(set(one.values())) == 1 and len(set(many.values())) == 1 and len(set(tables.values())) == 1, (
        one,
        many,
        tables,
    )
    assert one["summary"][1] == many["summary"][1] == CAUTION
    assert 0 < float(many["summary"][0]) <= float(one["summary"][0])
    assert tables["summary"].startswith(
        "defaults, not measured on any processor; `karez doctor --kernels --save` measures this one"
    )


def write_cost_table(tmp_path, origin='origin "measured here"\n'):
    path = tmp_path / "costs.txt"
    path.write_text(
        f"{origin}link alpha=1e-5 beta=1e-9\nlink @local alpha=3e-6 beta=2e-9\nmatmul_flops=3e9\nconv_flops=2e9\n"
        f"memory_bytes=1e9\ncall=7e-6\n"
        + "".join(
            f"rate {isa} team {team} {rate}={team * (i + 1)}e8\n"
            for isa in ("baseline", "avx2", "avx512")
            for team in (1, 2)
            for i, rate in enumerate(RATES)
        )
    )
    return path


@pytest.mark.parametrize("team", [1, 2])
@pytest.mark.parametrize("name", ["demo", "pipeline", "one"])
def test_all_reports_use_a_measured_table_without_a_caution(name, team, tmp_path):
    file = write_cost_table(tmp_path)
    kz.init(devices=4, team=team, cost_file="default")
    before = printed_seconds(PROGRAMS[name](), tmp_path)[0]["summary"]
    kz.worlds._end()
    kz.init(devices=4, team=team, cost_file=str(file))
    step = PROGRAMS[name]()
    for costs in ((), ("--costs", file)):
        one, many, tables = printed_seconds(step, tmp_path, *costs)
        assert len(set(one.values())) == 1 and len(set(many.values())) == 1, (one, many)
        assert one["summary"][1] == many["summary"][1] == ""
        assert float(one["summary"][0]) > 2 * float(before[0])
        assert set(tables.values()) == {"measured here"}
    assert "default costs" not in step.summary() + step.plan._page.html()


def test_another_cost_table_can_be_requested(tmp_path):
    step = mlp()
    plan = tmp_path / "p.plan"
    step.plan.save(plan)
    file = write_cost_table(tmp_path, origin="")
    explain_text, simulated = karez("plan", "explain", plan, "--costs", file), karez("simulate", plan, "--costs", file)
    assert (
        predicted(explain_text)["one"]
        == re.match(r"plan 'step': (\S+) us a launch, predicted(.*)\n", simulated).groups()
        != predicted(step.summary())["one"]
    )
    assert (
        f"\ncosts: those of {file}\n" in explain_text
        and f"\ncosts: those of {file}\n" in simulated
        and CAUTION not in explain_text + simulated
    )


def test_a_plan_without_a_table_is_predicted_with_default_costs_and_a_caution(tmp_path):
    kz.init(devices=4, cost_file=str(write_cost_table(tmp_path)))
    new, old = tmp_path / "new.plan", tmp_path / "old.plan"
    text = mlp().plan
    new.write_text(text)
    bare = re.sub(r"^cost .*\n", "", text, flags=re.M)
    assert len(bare) + 20 < len(text) < len(bare) + 2500
    old.write_text(bare)
    assert karez("plan", "show", old) == bare
    hashes = [re.search(r"hash \w+", karez("plan", "verify", path)).group() for path in (new, old)]
    assert hashes[0] == hashes[1]
    explain_text, simulated = karez("plan", "explain", old), karez("simulate", old)
    for report in (explain_text, simulated, karez("plan", "show", "--summary", old)):
        assert "\ncosts: defaults, not measured on any processor; the plan has no cost table" in report
    assert (
        predicted(explain_text)["one"]
        == re.match(r"plan 'step': (\S+) us a launch, predicted(.*)\n", simulated).groups()
    )
    assert predicted(explain_text)["one"][1] == CAUTION and predicted(explain_text) != predicted(
        karez("plan", "explain", new)
    )


def test_an_invalid_table_is_an_error_that_names_the_file(tmp_path):
    bad = tmp_path / "bad.plan"
    bad.write_text(mlp().plan.replace("cost call=", "cost speed="))
    for command in (["plan", "verify"], ["plan", "explain"], ["simulate"]):
        assert karez(*command, bad, code=77).startswith(f"karez: {bad}: costs: line "), command
    bad.write_text(mlp().plan + "cost # nothing\n")
    assert "expected a line of a cost table" in karez("plan", "show", bad, code=77)


def test_a_plan_of_karez_opt_keeps_its_table(tmp_path):
    graph, file, plan = tmp_path / "net.graph", write_cost_table(tmp_path), tmp_path / "p.plan"
    graph.write_text(
        'graph main mesh(data=2) {\n  %0 = input() {dtype="f32", name="x", shape=[8, 6]} : f32[8, 6]\n  %1 = '
        'relu(%0) : f32[8, 6]\n  output "y" %1\n}\n'
    )
    for costs, origin, expected_caution in ((("--costs", file), "measured here", ""), ((), "defaults, ", CAUTION)):
        plan.write_text(karez("opt", graph, "--passes", "all", *costs))
        explain_text = karez("plan", "explain", plan)
        assert f"\ncosts: {origin}" in explain_text and predicted(explain_text)["one"][1] == expected_caution


def test_layouts_are_explained_with_the_same_caution(tmp_path):
    assert (
        mlp()
        .explain("first.weight")
        .startswith(
            f"'first.weight' on mesh(data=2), predicted for a launch of the whole program with each of its "
            f"layouts,{CAUTION}\n"
        )
    )
    kz.worlds._end()
    kz.init(devices=4, cost_file=str(write_cost_table(tmp_path)))
    assert "default" not in mlp().explain("first.weight")


def size(number, unit):
    return float(number) * {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit]


def parts_and_totals(text):
    return [
        (size(a, u), size(b, v)) for a, u, b, v in re.findall(r"(\S+) (\w*B) +of (\S+) (\w*B) in all its blocks", text)
    ]


@pytest.mark.parametrize("launches", [1, 3])
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_share_exceeds_its_total(name, launches, tmp_path):
    step = PROGRAMS[name]()
    step.plan.save(tmp_path / "p.plan")
    simulated = karez("simulate", tmp_path / "p.plan", "--launches", launches, "--rows", 1000)
    pairs = parts_and_totals(simulated)
    modules = karez("plan", "explain", tmp_path / "p.plan", "--rows", 1000).split("\n\n")[2].splitlines()
    block_bytes = size(*re.search(r"(\S+) (\w*B) in blocks", modules[0]).groups())
    assert len(modules) > 3 and all(
        size(*re.match(r" *(\S+) (\w*B)", row).groups()) <= block_bytes for row in modules[2:-1]
    ), modules
    devices = len(re.findall(r"^device ", step.plan, re.M))
    assert len(pairs) == devices and all(0 < part <= total for part, total in pairs), pairs
    shares = [
        float(share)
        for share in re.findall(
            r"(\d+\.\d+) %", simulated + karez("plan", "explain", tmp_path / "p.plan", "--rows", 1000) + step.summary()
        )
    ]
    assert len(shares) > devices and max(shares) <= 100.0
    assert sum(part for part, _ in pairs[:1]) <= step.peak_bytes


def test_a_memory_limit_is_reported_with_the_same_caution(tmp_path):
    limit = pipeline().peak_bytes - 8192  # less than the tightest packing needs
    kz.worlds._end()
    kz.init(devices=4, memory=limit, cost_file="default")
    lines = [line for line in pipeline().summary().splitlines() if "without that limit" in line]
    assert lines and all(f"predicted{CAUTION}; without that limit " in line for line in lines)


CONCURRENT_COLLECTIVES = (
    """plan "p" world 1 rank 0 hash 0
device 0: 0 0 "cpu"
device 1: 0 1 "cpu"
"""
    + "".join(f'stream {d}: "comm" device {d} worker {d}\n' for d in (0, 1))
    + "".join(f"block b{d}: scratch device {d} bytes 256\n" for d in (0, 1))
    + "".join(f"register r{2 * a}: session -> a{a}\nregister r{2 * a + 1}: a{a} -> session\n" for a in range(4))
    + "".join(
        f'actor a{a}: collective "all_reduce %{a // 2}" stream {a % 2} in r{2 * a} out r{2 * a + 1}\n'
        f'  collective "all_reduce" "sum" by "direct" communicator {a // 2} turn 0 in b{a % 2} + {64 * a} f32[1] '
        f"out b{a % 2} + {64 * a + 8} f32[1]\n"
        for a in range(4)
    )
    + "".join(f'communicator {c}: chunk 64 members 0 0 "cpu", 0 1 "cpu" sequence "all_reduce %{c}"\n' for c in (0, 1))
    + "cost link alpha=1 beta=0\n"
)


def test_a_stream_with_concurrent_collectives_counts_busy_time_once(tmp_path):
    (tmp_path / "p.plan").write_text(CONCURRENT_COLLECTIVES)
    simulated = karez("simulate", tmp_path / "p.plan")
    assert re.match(
        r"plan 'p': 20000\d\d\.\d us a launch", simulated
    )  # two messages at the same time, one of each communicator
    assert re.search(
        r"streams, busy for\n +100\.0 %  cpu 0\.\d  comm   <- the busiest stream\n +100\.0 % ", simulated
    ), simulated
