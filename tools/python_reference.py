#!/usr/bin/env python3
"""Writes the reference of the Python package into a folder with pdoc, with each public name under its module."""

import inspect
import pathlib
import sys
import types
import warnings

import pdoc

import karez

MODULES = [karez, karez.nn, karez.nn.functional, karez.nn.init, karez.optim, karez.data, karez.debug]

warnings.simplefilter("error", UserWarning)
warnings.filterwarnings("ignore", message="Error parsing type annotation")  # pdoc shows such annotations as text
for name, thing in list(vars(karez.Tensor).items()):  # pdoc fails on the source of a lambda
    if getattr(thing, "__name__", "") == "<lambda>":
        scope = {}
        exec(f"def {name}{inspect.signature(thing)}: ...", scope)
        scope[name].__doc__ = thing.__doc__
        setattr(karez.Tensor, name, scope[name])
specs = []
for module in MODULES:
    names = [name for name in dir(module) if not name.startswith("_")]
    module.__all__ = [
        name
        for name in names
        if str(getattr(getattr(module, name), "__module__", "")).startswith("karez")
        and not isinstance(getattr(module, name), types.ModuleType)
    ]
    specs += [module.__name__, f"!{module.__name__}[.].*"]
pdoc.render.configure(docformat="google", show_source=False)
pdoc.pdoc(*specs, output_directory=pathlib.Path(sys.argv[1]))
