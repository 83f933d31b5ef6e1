"""Makes the tests import the package of this build, and makes each test begin without a world."""

import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
os.environ.setdefault("KAREZ_CACHE", "off")  # the user's cached plans are neither read nor written
os.environ.setdefault("KAREZ_COSTS", "default")  # plans do not depend on the machine
sys.path.insert(0, str(ROOT / os.environ.get("KAREZ_BUILD", "build") / "python"))

import karez.worlds  # noqa: E402


@pytest.fixture(autouse=True)
def no_world():
    karez.worlds._end()
    yield
    karez.worlds._end()
