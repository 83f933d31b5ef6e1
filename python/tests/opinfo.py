"""Samples of PyTorch's OpInfo database with PyTorch's answers: the results, and the gradients of a weighted sum of the
results. Run as a program, this file stores some samples, or compares all samples with Karez."""

import collections
import random
import sys
import time
import warnings

import numpy as np
import torch
from opinfo_cases import DTYPES, HALVES, STORED, Case, Outcome, Slot, compare, encode, karez_function, store, weights_of
from torch.testing._internal.common_methods_invocations import op_db

OMITTED_KEYWORDS = ("device", "layout", "pin_memory", "memory_format", "requires_grad")  # unknown to Karez
MAX_SAMPLES = {"float64": 5, "float32": 4}  # the number of samples stored for each function; 2 for other dtypes
BYTES = 6000  # the preferred size of a stored sample


def ops():
    return [op for op in op_db if karez_function(op.name) is not None]


def samples(op, name):
    dtype = getattr(torch, name)
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    return (
        list(enumerate(op.sample_inputs("cpu", dtype, requires_grad=dtype.is_floating_point and op.supports_autograd)))
        if dtype in op.dtypes
        else []
    )


def make_case(op, name, number, sample):
    """The sample as a case, or an Outcome with the reason for its exclusion."""

    def exclude(reason):
        return Outcome(op.formatted_name, name, number, "excluded", reason)

    if sample.kwargs.get("dropout_p"):
        return exclude("other random numbers")
    inputs = []

    def convert_argument(value):
        """Replaces a tensor with the slot of a new input, and a dtype with its name. Other values are unchanged."""
        if isinstance(value, torch.Tensor):
            inputs.append(value)
            return Slot(len(inputs) - 1)
        if isinstance(value, torch.dtype):
            return dtype_name(value)
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, (list, tuple)):
            return (
                type(value)(map(convert_argument, value))
                if type(value) in (list, tuple)
                else tuple(map(convert_argument, value))
            )
        return value

    args, keywords = (
        convert_argument([sample.input, *sample.args]),
        {key: convert_argument(value) for key, value in sample.kwargs.items() if key not in OMITTED_KEYWORDS},
    )
    if any(dtype_name(value.dtype) not in DTYPES for value in inputs):
        return exclude("a dtype that Karez does not support")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outputs = tensors_of(op(sample.input, *sample.args, **sample.kwargs))
            dtypes = [output.dtype for output in outputs]
            if name in HALVES:
                wide_sample = sample.transform(widened)
                outputs, inputs = tensors_of(op(wide_sample.input, *wide_sample.args, **wide_sample.kwargs)), []
                (
                    convert_argument([wide_sample.input, *wide_sample.args]),
                    {
                        key: convert_argument(value)
                        for key, value in wide_sample.kwargs.items()
                        if key not in OMITTED_KEYWORDS
                    },
                )
    except Exception as error:  # the database itself may fail
        return exclude(f"PyTorch rejects it: {error}")
    if any(dtype_name(output.dtype) not in DTYPES for output in outputs):
        return exclude("a dtype that Karez does not support")
    answers = [rounded(output, to) for output, to in zip(outputs, dtypes)]
    # an answer that overflows a half dtype has infinite gradients
    overflows = any(np.isinf(answer).sum() > torch.isinf(output).sum() for answer, output in zip(answers, outputs))
    leaves = [i for i, value in enumerate(inputs) if value.requires_grad and value.is_leaf and not overflows]
    smooth = [output for output in outputs if output.requires_grad]
    grads = [None] * len(leaves)
    if leaves and smooth:
        loss = sum((item * torch.from_numpy(weights_of(item.shape, name))).sum() for item in smooth)
        grads = torch.autograd.grad(loss, [inputs[i] for i in leaves], allow_unused=True)
    arrays = [value.detach().resolve_conj().numpy() for value in inputs]
    return Case(
        op.formatted_name,
        op.name,
        name,
        number,
        args,
        keywords,
        arrays,
        leaves,
        answers,
        [dtype_name(dtype) for dtype in dtypes],
        [output.requires_grad for output in outputs],
        [None if grad is None else slope(grad, name) for grad in grads],
    )


def dtype_name(dtype):
    return str(dtype).removeprefix("torch.")


def tensors_of(nested):
    return [
        item for item in (nested if isinstance(nested, (list, tuple)) else [nested]) if isinstance(item, torch.Tensor)
    ]


def slope(tensor, name):
    return (tensor.to(getattr(torch, name)).float() if name in HALVES else tensor).detach().numpy(force=True)


def widened(value):
    """Converts a half-precision tensor to an f32 leaf, which requires a gradient if the original does."""
    if not isinstance(value, torch.Tensor) or dtype_name(value.dtype) not in HALVES:
        return value
    return value.detach().float().requires_grad_(value.requires_grad)


def rounded(tensor, dtype):
    """PyTorch's answer rounded to the dtype; bfloat16 is returned as float32."""
    rounded = tensor.detach().to(dtype)
    return (rounded.float() if dtype is torch.bfloat16 else rounded).numpy(force=True)


def outcomes(max_samples=None, seed=0, dtypes=("float64", "float32"), only=""):
    """The outcomes of all samples, or of at most max_samples samples of each function, drawn at random."""
    torch.set_num_threads(1)
    draw = random.Random(seed)
    for op in ops():
        for name in dtypes if not only or op.name in only.split(",") else ():
            found = samples(op, name)
            for number, sample in (
                found
                if max_samples is None or len(found) <= max_samples
                else sorted(draw.sample(found, max_samples), key=lambda value: value[0])
            ):
                case = make_case(op, name, number, sample)
                yield case if isinstance(case, Outcome) else compare(case)


def choose_samples(op, name):
    """The samples to store, and how many others are excluded for which reason. The samples are drawn at random from
    those of at most BYTES bytes, with the names of the function and the dtype as the seed; if there are none, the
    smallest sample is stored."""
    found, cases, large, skipped = samples(op, name), [], [], collections.Counter()
    random.Random(f"{op.formatted_name} {name}").shuffle(found)
    for number, sample in found:
        case = make_case(op, name, number, sample)
        try:
            if isinstance(case, Outcome):
                skipped[case.text] += 1
                continue
            encode([case.args, case.keywords])
        except TypeError as error:
            skipped[str(error)] += 1
            continue
        size = sum(value.nbytes for value in [*case.inputs, *case.outputs, *case.grads] if value is not None)
        (cases if size <= BYTES else large).append((size, case))
        if len(cases) == MAX_SAMPLES.get(name, 2):
            break
    cases = [case for _, case in cases] or [case for _, case in sorted(large, key=lambda value: value[0])[:1]]
    return sorted(cases, key=lambda case: case.number), skipped


def store_samples():
    torch.set_num_threads(1)
    cases, empty = [], []
    for op in ops():
        for name in DTYPES:
            if getattr(torch, name) in op.dtypes:
                chosen_cases, skipped = choose_samples(op, name)
                cases += chosen_cases
                if not chosen_cases:
                    empty.append([op.formatted_name, name, "; ".join(sorted(skipped)) or "no samples"])
    facts = {
        "torch": torch.__version__,
        "names": sorted({op.name for op in op_db}),
        "empty": empty,
        "ops": sorted(
            [op.formatted_name, op.name, [name for name in DTYPES if getattr(torch, name) in op.dtypes]] for op in op_db
        ),
    }
    store(cases, facts)
    print(
        f"{len(cases)} samples with answers from PyTorch {torch.__version__} in {STORED.stat().st_size} bytes; "
        f"{len(empty)} pairs of a function and a dtype have no sample"
    )


def main(arguments):
    if arguments[:1] == ["store"]:
        return store_samples()
    begin, table, lines = time.time(), collections.Counter(), []
    max_samples = int(arguments[0]) if arguments and arguments[0] != "all" else None
    names = arguments[2:] or ("float64", "float32")
    for outcome in outcomes(max_samples, only=arguments[1] if len(arguments) > 1 else "", dtypes=names):
        table[outcome.what] += 1
        if outcome.what in ("rejected", "wrong"):
            lines.append(outcome)
    by = collections.Counter((line.op, line.what, line.text[:150]) for line in lines)
    for (op, what, text), count in sorted(by.items()):
        print(f"{count:4} {what:8} {op:40} {text}")
    print(dict(table), f"{time.time() - begin:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
