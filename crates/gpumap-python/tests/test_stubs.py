"""Type checkers take the package for a typed one. ``cargo xtask python`` compares the stubs with the native part."""

import pathlib

import gpumap_rs


def test_the_package_is_typed():
    folder = pathlib.Path(gpumap_rs.__file__).parent
    assert (folder / "py.typed").exists() and (folder / "_native.pyi").exists()
