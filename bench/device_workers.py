"""Are devices with uneven work faster if they are assigned to workers by cost than if they are assigned in turn?

The program has four stages and 8 micro-batches on two workers; two stages have a dense layer of 512 x 512 each, and two
have a norm. `karez exec` alternately runs the plan of Karez and the same plan with device d on worker d modulo 2. Fails
if the assignment in turn is faster.
"""

import os
import re
import statistics
import subprocess
import sys
import tempfile

BUILD = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), os.environ.get("KAREZ_BUILD", "build")
)
PAIRS, LAUNCHES = 7, 8


def plan_text():
    sys.path.insert(0, os.path.join(BUILD, "python"))
    import numpy as np

    import karez as kz
    from karez import nn

    class Stages(nn.Module):
        def __init__(self):
            self.wide0, self.thin0 = nn.Linear(512, 512), nn.LayerNorm(512)
            self.wide1, self.thin1 = nn.Linear(512, 512), nn.LayerNorm(512)

        def forward(self, x):
            return self.thin1(self.wide1(self.thin0(self.wide0(x)))).mean()

    kz.init(devices=4, workers=2, team=1)
    net = Stages()
    sgd = kz.optim.SGD(net.parameters(), lr=1e-3)

    @kz.compile(mesh=kz.Mesh(stage=4), placements={"wide0": 0, "thin0": 1, "wide1": 2, "thin1": 3}, microbatches=8)
    def step(x):
        loss = net(x)
        loss.backward()
        sgd.step()
        return loss

    step(np.ones((4096, 512), np.float32))
    return str(step.plan)


def milliseconds(plan):
    completed = subprocess.run(
        [os.path.join(BUILD, "tools", "karez"), "exec", "--workers", "2", "--launches", str(LAUNCHES), plan],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(re.search(r"median ([0-9.]+) ms", completed.stdout)[1])


def main():
    by_cost = plan_text()
    in_turn = re.sub(
        r'(stream \d+: "(?:compute|comm)" device )(\d+)( worker )\d+',
        lambda m: f"{m[1]}{m[2]}{m[3]}{int(m[2]) % 2}",
        by_cost,
    )
    if by_cost == in_turn:
        sys.exit("the plan assigns devices in turn, so there is nothing to compare (is there a second core?)")
    with tempfile.TemporaryDirectory() as folder:
        plans = []
        for name, text in (("cost", by_cost), ("turns", in_turn)):
            plans.append(os.path.join(folder, name))
            with open(plans[-1], "w") as out:
                out.write(text)
        times = [[milliseconds(plan) for plan in plans] for _ in range(PAIRS)]
    ratio = statistics.median(a / b for a, b in times)
    cost, turns = (statistics.median(column) for column in zip(*times))
    print(
        f"by cost {cost:.1f} ms, in turn {turns:.1f} ms a launch, ratio {ratio:.3f} (at most 1), medians of {PAIRS} "
        f"pairs"
    )
    sys.exit(ratio > 1)


if __name__ == "__main__":
    main()
