"""The stub file has what the native part has."""

import ast
import pathlib

import gpumap_rs
from gpumap_rs import _native

STUBS = ast.parse((pathlib.Path(gpumap_rs.__file__).parent / "_native.pyi").read_text())


def functions(body):
    return {node.name: node for node in body if isinstance(node, ast.FunctionDef)}


def arguments(function):
    return [argument.arg for argument in function.args.args if argument.arg != "self"]


def test_names():
    classes = {node.name: node for node in STUBS.body if isinstance(node, ast.ClassDef)}
    public = {name for name in vars(_native) if not name.startswith("_")}
    assert set(classes) | set(functions(STUBS.body)) == public
    for name, stub in classes.items():
        if issubclass(getattr(_native, name), Exception):
            assert [base.__name__ for base in getattr(_native, name).__bases__] == [stub.bases[0].id]
            continue
        native = {
            member
            for member in vars(getattr(_native, name))
            if not member.startswith("__") or member == "__dlpack__"
        }
        assert native <= set(functions(stub.body)), name
        for member, function in functions(stub.body).items():
            text = getattr(getattr(getattr(_native, name), member), "__text_signature__", None)
            if text and not member.startswith("__"):
                taken = [word.strip() for word in text.strip("()").split(",")]
                taken = [word for word in taken if word not in ("$self", "/", "*")]
                assert taken == arguments(function), f"{name}.{member}{text}"


def test_the_package_is_typed():
    assert (pathlib.Path(gpumap_rs.__file__).parent / "py.typed").exists()
