"""Configures pytest: tests can import pins.py and plan with default costs, and KAREZ_TIME_LIMITS multiplies the time
limits that tests set."""

import os
import pathlib
import sys

import pytest

os.environ.setdefault("KAREZ_COSTS", "default")  # neither a saved cost table nor the processor changes plans
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "tools" / "testing"))


def pytest_collection_modifyitems(items):
    times = int(os.environ.get("KAREZ_TIME_LIMITS", "1"))
    for item in items:
        if mark := item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(times * mark.args[0]), append=False)
