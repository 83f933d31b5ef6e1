"""Guards of captured values at their edges: objects that are gone, large attributes, places of one name, and objects whose methods raise."""

import collections
import functools
import os
import site
import subprocess
import sys
import types

import numpy as np
import pytest

import karez as kz
from karez import captured, read_watch, reflection

ONE = np.ones(6, np.float32)
LARGE = list(range(2000))
scale, flag, G = 2.0, True, 2.0


class Holder:
    def __init__(self, **values):
        vars(self).update(values)


def first(f, *args):
    return float(f(ONE, *args)[0])


def test_an_error_in_a_trace_leaves_no_watch_in_a_class():
    class Words(Holder):
        pass

    tok, other = Words(words=list(range(2000)), scale=2.0), Holder(words=[1.0])

    def reads_a_large_global(x):
        return x * LARGE[0]

    with pytest.raises(kz.UserError, match="may read global 'LARGE'"):
        kz.compile(lambda x: reads_a_large_global(x) * tok.scale * other.words[0])(ONE)
    assert "words" not in vars(Words) and len(tok.words) == 2000
