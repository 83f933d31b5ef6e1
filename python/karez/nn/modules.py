"""kz.nn.modules.module: hooks of all modules, under PyTorch's path."""

import sys

from . import module_hooks as module

sys.modules[f"{__name__}.module"] = module  # `from karez.nn.modules.module import ...` works as in PyTorch
