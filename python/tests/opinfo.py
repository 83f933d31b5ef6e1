"""Sample inputs of PyTorch's OpInfo database with PyTorch's answers: values, and gradients of a weighted sum of them.
As a program it stores some samples, or compares all."""

import collections
import random
import sys
import time
import warnings

import numpy as np
import torch
from opinfo_cases import DTYPES, HALVES, STORED, Case, Outcome, Slot, compared, encoded, ours_of, store, weights_of
from torch.testing._internal.common_methods_invocations import op_db

PLACES = ("device", "layout", "pin_memory", "memory_format", "requires_grad")  # not operands of a program
MOST = {"float64": 5, "float32": 4}  # stored samples of a function; two for other dtypes
BYTES = 6000  # elements of a stored sample, if a sample is as small


def ops():
    return [op for op in op_db if ours_of(op.name) is not None]


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


def answered(op, name, number, sample):
    """The sample as a case, or an Outcome with the reason for its exclusion."""

    def none(why):
        return Outcome(op.formatted_name, name, number, "none", why)

    if sample.kwargs.get("dropout_p"):
        return none("other random numbers")
    inputs = []

    def taken(value):
        """A tensor becomes the next argument, a dtype its Karez dtype; other values are unchanged."""
        if isinstance(value, torch.Tensor):
            inputs.append(value)
            return Slot(len(inputs) - 1)
        if isinstance(value, torch.dtype):
            return named(value)
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, (list, tuple)):
            return type(value)(map(taken, value)) if type(value) in (list, tuple) else tuple(map(taken, value))
        return value

    args, words = (
        taken([sample.input, *sample.args]),
        {key: taken(value) for key, value in sample.kwargs.items() if key not in PLACES},
    )
    if any(named(value.dtype) not in DTYPES for value in inputs):
        return none("a dtype that we have not")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outputs = tensors_of(op(sample.input, *sample.args, **sample.kwargs))
            dtypes = [one.dtype for one in outputs]
            if name in HALVES:
                wide = sample.transform(widened)
                outputs, inputs = tensors_of(op(wide.input, *wide.args, **wide.kwargs)), []
                (
                    taken([wide.input, *wide.args]),
                    {key: taken(value) for key, value in wide.kwargs.items() if key not in PLACES},
                )
    except Exception as error:  # the OpInfo's own
        return none(f"PyTorch refuses it: {error}")
    if any(named(one.dtype) not in DTYPES for one in outputs):
        return none("a dtype that we have not")
    answers = [rounded(one, to) for one, to in zip(outputs, dtypes)]
    # of a half dtype, with infinite gradients
    overflows = any(np.isinf(one).sum() > torch.isinf(wide).sum() for one, wide in zip(answers, outputs))
    leaves = [i for i, value in enumerate(inputs) if value.requires_grad and value.is_leaf and not overflows]
    smooth = [one for one in outputs if one.requires_grad]
    grads = [None] * len(leaves)
    if leaves and smooth:
        loss = sum((one * torch.from_numpy(weights_of(one.shape, name))).sum() for one in smooth)
        grads = torch.autograd.grad(loss, [inputs[i] for i in leaves], allow_unused=True)
    given = [value.detach().resolve_conj().numpy() for value in inputs]
    return Case(
        op.formatted_name,
        op.name,
        name,
        number,
        args,
        words,
        given,
        leaves,
        answers,
        [named(one) for one in dtypes],
        [one.requires_grad for one in outputs],
        [None if one is None else slope(one, name) for one in grads],
    )


def named(dtype):
    return str(dtype).removeprefix("torch.")


def tensors_of(made):
    return [one for one in (made if isinstance(made, (list, tuple)) else [made]) if isinstance(one, torch.Tensor)]


def slope(tensor, name):
    return (tensor.to(getattr(torch, name)).float() if name in HALVES else tensor).detach().numpy(force=True)


def widened(value):
    """A half tensor as a f32 tensor, a leaf if the original is one."""
    if not isinstance(value, torch.Tensor) or named(value.dtype) not in HALVES:
        return value
    return value.detach().float().requires_grad_(value.requires_grad)


def rounded(tensor, dtype):
    """PyTorch's answer in the dtype; bfloat16 as float32."""
    made = tensor.detach().to(dtype)
    return (made.float() if dtype is torch.bfloat16 else made).numpy(force=True)


def outcomes(most=None, seed=0, dtypes=("float64", "float32"), only=""):
    """The outcomes of all samples, or of a random draw of at most this number for each function."""
    torch.set_num_threads(1)
    draw = random.Random(seed)
    for op in ops():
        for name in dtypes if not only or op.name in only.split(",") else ():
            found = samples(op, name)
            for number, sample in (
                found
                if most is None or len(found) <= most
                else sorted(draw.sample(found, most), key=lambda one: one[0])
            ):
                case = answered(op, name, number, sample)
                yield case if isinstance(case, Outcome) else compared(case)


def chosen(op, name):
    """The samples to store, drawn from the small ones with the function's name as the seed, and the reasons of
    exclusions."""
    found, cases, large, left = samples(op, name), [], [], collections.Counter()
    random.Random(f"{op.formatted_name} {name}").shuffle(found)
    for number, sample in found:
        case = answered(op, name, number, sample)
        try:
            if isinstance(case, Outcome):
                left[case.text] += 1
                continue
            encoded([case.args, case.words])
        except TypeError as error:
            left[str(error)] += 1
            continue
        size = sum(one.nbytes for one in [*case.inputs, *case.outputs, *case.grads] if one is not None)
        (cases if size <= BYTES else large).append((size, case))
        if len(cases) == MOST.get(name, 2):
            break
    cases = [case for _, case in cases] or [case for _, case in sorted(large, key=lambda one: one[0])[:1]]
    return sorted(cases, key=lambda case: case.number), left


def store_some():
    torch.set_num_threads(1)
    cases, empty = [], []
    for op in ops():
        for name in DTYPES:
            if getattr(torch, name) in op.dtypes:
                some, left = chosen(op, name)
                cases += some
                if not some:
                    empty.append([op.formatted_name, name, "; ".join(sorted(left)) or "no samples"])
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
        f"{len(cases)} samples with answers of PyTorch {torch.__version__} in {STORED.stat().st_size} bytes; of {len(empty)} functions and dtypes none"
    )


def main(words):
    if words[:1] == ["store"]:
        return store_some()
    begin, table, lines = time.time(), collections.Counter(), []
    most = int(words[0]) if words and words[0] != "all" else None
    for one in outcomes(most, only=words[1] if len(words) > 1 else "", dtypes=words[2:] or ("float64", "float32")):
        table[one.what] += 1
        if one.what in ("refused", "wrong"):
            lines.append(one)
    by = collections.Counter((one.op, one.what, one.text[:150]) for one in lines)
    for (op, what, text), count in sorted(by.items()):
        print(f"{count:4} {what:8} {op:40} {text}")
    print(dict(table), f"{time.time() - begin:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
