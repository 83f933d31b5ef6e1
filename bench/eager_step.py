"""How long does a training step outside of compiled functions take? A net of 20-64-5 with 32 rows, and a small CNN,
with SGD and Adam, in three forms: the loss is read after the step, before backward(), or the gradients are read between
backward() and the step. Compares each with the same program in eager PyTorch; both sides alternate, and each runs in a
process of its own with the faster of one thread and all cores.

Target: at most 1.0 times the time of PyTorch. `./dev deps --peers` installs PyTorch; --peer-python names another Python
that has it."""

import argparse
import os
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("KAREZ_BUILD", os.path.join(ROOT, "build"))
MODELS, OPTIMISERS, FORMS = ("mlp", "cnn"), ("SGD", "Adam"), ("loss after", "loss before", "gradients")


def serve(framework, threads):
    """Answers lines "MODEL OPTIMISER FORM STEPS" with the seconds of a step and the last loss."""
    import numpy as np

    if framework == "torch":
        import torch
        from torch import nn, optim
        from torch.nn import functional as F

        torch.set_num_threads(threads)
        torch.manual_seed(0)
        array = torch.from_numpy
    else:
        sys.path.insert(0, os.path.join(BUILD, "python"))
        import karez as kz
        from karez import F, nn, optim

        kz.init(workers=threads, team=threads)
        kz.seed(0)

        def array(values):
            return values

    rng = np.random.default_rng(0)
    runs = {}

    def make(model, optimiser):
        if model == "mlp":
            net = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 5))
            x = rng.normal(size=(32, 20))
        else:
            net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 7 * 7, 5))
            x = rng.normal(size=(32, 1, 16, 16))
        opt = getattr(optim, optimiser)(net.parameters(), lr=1e-3)
        return net, opt, array(x.astype(np.float32)), array(rng.integers(0, 5, 32))

    for line in sys.stdin:
        model, optimiser, form, steps = line.strip().split(",")
        if (model, optimiser) not in runs:
            runs[model, optimiser] = make(model, optimiser)
        net, opt, x, y = runs[model, optimiser]
        begin = time.perf_counter()
        for _ in range(int(steps)):
            opt.zero_grad()
            loss = F.cross_entropy(net(x), y)
            if form == "loss before":
                loss.item()
            loss.backward()
            if form == "gradients":
                for p in net.parameters():
                    p.grad.numpy()
            opt.step()
            loss.item()
        print((time.perf_counter() - begin) / int(steps), loss.item(), flush=True)


class Peer:
    """A process that measures steps."""

    def __init__(self, python, framework, threads):
        arguments = [python, __file__, "--serve", framework, "--threads", str(threads)]
        self.process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def seconds(self, *request):
        self.process.stdin.write(",".join(map(str, request)) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        if not answer:
            sys.exit(f"eager_step: a process ended: {' '.join(self.process.args)}")
        return float(answer[0])

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--peer-python", default=sys.executable)
    parser.add_argument("--serve")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    if options.serve:
        return serve(options.serve, options.threads)
    threads = sorted({1, os.cpu_count() or 1})
    peers = {
        (framework, count): Peer(python, framework, count)
        for framework, python in (("karez", sys.executable), ("torch", options.peer_python))
        for count in threads
    }
    print(f"{'':24} {'karez, us':>10} {'torch, us':>10}  ratio")
    worst = 0.0
    for model in MODELS:
        for optimiser in OPTIMISERS:
            for form in FORMS:
                fastest = {}
                for (framework, _), peer in peers.items():
                    peer.seconds(model, optimiser, form, 20)
                    seconds = peer.seconds(model, optimiser, form, options.steps)
                    if framework not in fastest or seconds < fastest[framework][0]:
                        fastest[framework] = seconds, peer
                pairs = [
                    [fastest[f][1].seconds(model, optimiser, form, options.steps) for f in ("karez", "torch")]
                    for _ in range(options.pairs)
                ]
                ratios = sorted(a / b for a, b in pairs)
                karez, other = (statistics.median(pair[i] for pair in pairs) * 1e6 for i in (0, 1))
                ratio = statistics.median(ratios)
                worst = max(worst, ratio)
                print(
                    f"{model + ', ' + optimiser + ', ' + form:24} {karez:10.0f} {other:10.0f}  {ratio:.2f} "
                    f"({ratios[0]:.2f} to {ratios[-1]:.2f})",
                    flush=True,
                )
    for peer in peers.values():
        peer.close()
    print(f"eager_step: worst ratio {worst:.2f} (target 1.0)")
    return worst <= 1.0


if __name__ == "__main__":
    sys.exit(0 if main() in (None, True) else 1)
