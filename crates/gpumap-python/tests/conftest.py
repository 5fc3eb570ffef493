"""Tests run on the CPU, and with ``GPUMAP_TEST_DEVICE=cuda`` on the first GPU, with the same package."""

import os

import pytest


@pytest.fixture
def device() -> str:
    return os.environ.get("GPUMAP_TEST_DEVICE", "cpu")
