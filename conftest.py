"""For every run of pytest: time limits of their own grow as KAREZ_TIME_LIMITS says, on busy machines and the like."""

import os

import pytest


def pytest_collection_modifyitems(items):
    times = int(os.environ.get("KAREZ_TIME_LIMITS", "1"))
    for item in items:
        if mark := item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(times * mark.args[0]), append=False)
