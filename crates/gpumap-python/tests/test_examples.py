"""The examples and the documentation say what is true."""

import doctest
import pathlib
import runpy

import pytest

import gpumap_rs

EXAMPLES = sorted((pathlib.Path(__file__).parent.parent / "examples").glob("*.py"))


def test_documentation():
    outcome = doctest.testmod(gpumap_rs)
    assert outcome.attempted > 5 and outcome.failed == 0


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path):
    runpy.run_path(str(path), run_name="__main__")
