"""Type checkers accept the documents' code, infer what it returns, and refuse what raises. ``cargo xtask python`` runs this."""

import json
import os
import re
import subprocess
import sys

import pytest
from test_documents import BLOCK, FOLDER

HEAD = "import numpy as np\nimport numpy.typing as npt\nimport gpumap_rs as gm\nfrom typing import Any, Iterator\nfrom typing_extensions import assert_type\n"
GUIDE = FOLDER / "../../docs/guide/src/python.md"

#: Expressions and their types. ``OnGpu`` is what has the CUDA array interface, which is on the host if its library says so.
TYPES = """
class OnGpu:
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {}

Flags = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int32]
Either = npt.NDArray[Any] | gm.Array
gpu, typed, keys = OnGpu(), gm.Map(np.uint64, np.float32), np.array([1, 2], np.uint64)
named, tuples = gm.Map("u64", "f32"), gm.Map((np.int32, 3), np.dtype(np.float64))

assert_type(typed, gm.Map[np.uint64, np.float32])
assert_type(named, gm.Map[Any, Any])
assert_type(gm.Map(), gm.Map[Any, Any])
assert_type(tuples, gm.Map[np.int32, np.float64])
assert_type(gm.Map.load("file", np.uint64, np.float32), gm.Map[np.uint64, np.float32])
assert_type(gm.Map.load("file", "u64", "f32"), gm.Map[Any, Any])
assert_type(typed.copy(), gm.Map[np.uint64, np.float32])
assert_type(typed.insert(keys, [1, 2]), int)
assert_type(typed.insert(keys, [1, 2], outcomes=True), tuple[int, Flags])
assert_type(typed.upsert(gpu, [1, 2], outcomes=True), tuple[int, Either])
assert_type(typed.merge([1], 2, "max", outcomes=True), tuple[int, Flags])
assert_type(typed.merge_present([1], 2, "xor"), int)
assert_type(typed.remove([1], outcomes=True), tuple[int, Flags])
assert_type(typed.get([1]), tuple[npt.NDArray[np.float32], Flags])
assert_type(typed.get(keys, -1.0), npt.NDArray[np.float32])
assert_type(typed.get(gpu), tuple[Either, Either])
assert_type(typed.get(gpu, 0), Either)
assert_type(named.get([1], default=0), npt.NDArray[Any])
assert_type(typed.take(keys), tuple[npt.NDArray[np.float32], Flags])
assert_type(typed.get_or_insert(keys, [1, 2]), npt.NDArray[np.float32])
assert_type(typed.contains(keys), Flags)
assert_type(typed.contains(gpu), Either)
assert_type(typed.retrieve_all(), tuple[npt.NDArray[np.uint64], npt.NDArray[np.float32]])
assert_type(typed.retrieve_all(to="device"), tuple[gm.Array, gm.Array])
assert_type(typed.chunks(), Iterator[tuple[npt.NDArray[np.uint64], npt.NDArray[np.float32]]])
assert_type(gm.Set(np.int64).retrieve_all(), npt.NDArray[np.int64])
assert_type(gm.Set("i64").insert([1], outcomes=True), tuple[int, Flags])
assert_type(gm.RowMap(np.int64).keys(), npt.NDArray[np.int64])
assert_type(gm.RowMap("i64").keys(to="device"), gm.Array)
assert_type(gm.RowMap("i64").insert([1]), Rows)
assert_type(gm.RowMap("i64").insert(gpu, outcomes=True), tuple[Either, Either])
assert_type(gm.RowMap(np.int64).retrieve_all(), tuple[npt.NDArray[np.int64], Rows])
assert_type(gm.RowMap(np.int64).copy(), gm.RowMap[np.int64])
assert_type(gm.StringRowMap().get(["a"]), Rows)
assert_type(gm.StringRowMap().keys(), list[str])
assert_type(gm.StringRowMap().copy(), gm.StringRowMap)
assert_type(gm.unique(keys), npt.NDArray[np.uint64])
assert_type(gm.unique([1]), npt.NDArray[Any])
assert_type(gm.unique(gpu), Either)
assert_type(gm.unique(keys, inverse=True), tuple[npt.NDArray[Any], ...])
assert_type(gm.count(keys), tuple[npt.NDArray[np.uint64], Rows])
assert_type(gm.sort(keys), npt.NDArray[np.uint64])
assert_type(gm.sort(keys, np.zeros(2)), tuple[npt.NDArray[np.uint64], npt.NDArray[np.float64]])
assert_type(gm.sort(gpu, keys), tuple[Either, Either])
assert_type(gm.top_k(keys, 1), tuple[npt.NDArray[np.uint64], Rows])
assert_type(gm.isin(keys, [1]), Flags)
assert_type(gm.join(keys, keys), tuple[Rows, Rows])
assert_type(gm.join(keys, keys, "left"), tuple[Rows, Rows])
assert_type(gm.join(keys, keys, how="semi"), Rows)
assert_type(gm.JoinTable(keys).join(gpu, "anti"), Either)
assert_type(gm.group_by(keys, n="count", low=("min", keys))[0], npt.NDArray[np.uint64])
assert_type(gm.GroupBy().finish(to="device"), tuple[gm.Array, dict[str, gm.Array]])
"""

#: What raises when it runs, and is refused before, line by line.
WRONG = """
counts, rows = gm.Map(np.uint64, np.uint64), gm.RowMap("i64")
counts.merge([1], 1, "sum")
counts.merge_present([1], 1, how="mean")
counts.retrieve_all(to="gpu")
counts.get([1], default="none")
counts.update(5)
gm.Map("u64", "f32", device=0)
gm.Map(np.uint64, np.float32, size=5)
gm.join([1], [1], how="outer")
gm.JoinTable([1]).join([1], "full")
gm.group_by([1], n="median")
gm.group_by([1], n=("median", [1]))
gm.GroupBy().batch([1], n="sum")
gm.top_k([1], 0.5)
rows.keys(to="cuda")
rows[5] = 1
gm.StringRowMap().keys(raw=1)
"""


def mypy(file, tmp_path):
    run = ["--no-error-summary", "--hide-error-context", "--cache-dir", str(tmp_path.parent / "mypy-cache"), str(file)]
    ran = subprocess.run([sys.executable, "-m", "mypy", *run], cwd=FOLDER, capture_output=True, text=True)
    assert ran.returncode in (0, 1) and not ran.stderr, ran.stdout + ran.stderr
    return [(int(line), told) for line, told in re.findall(r":(\d+): error: (.*)", ran.stdout)]


def pyright(file, tmp_path):
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "standard", "reportMissingTypeStubs": False}))
    run = ["--outputjson", "--pythonpath", sys.executable, "--project", str(tmp_path)]
    # Without it, it asks the network for its newest version.
    environment = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    ran = subprocess.run([sys.executable, "-m", "pyright", *run], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ran.returncode in (0, 1), ran.stdout + ran.stderr
    report = json.loads(ran.stdout)
    assert report["summary"]["filesAnalyzed"] == 1
    return [(it["range"]["start"]["line"] + 1, it["message"]) for it in report["generalDiagnostics"] if it["severity"] == "error"]


checkers = pytest.mark.parametrize("checker", [mypy, pyright])


@pytest.fixture
def errors(checker, tmp_path):
    def check(code):
        file = tmp_path / "code.py"
        file.write_text(HEAD + code)
        lines = file.read_text().splitlines()
        return {lines[line - 1]: told for line, told in checker(file, tmp_path)}

    return check


@checkers
@pytest.mark.skipif(not GUIDE.exists(), reason="only the package is here")
def test_code_of_the_guide_has_types(errors):
    blocks = BLOCK.findall(GUIDE.read_text())
    assert len(blocks) >= 5
    # A function for each, so that none sees the names of another.
    code = "".join(f"def block_{number}() -> None:\n{re.sub('^(?=.)', '    ', block, flags=re.MULTILINE)}\n" for number, block in enumerate(blocks))
    assert errors(code) == {}


@checkers
def test_types_of_answers(errors):
    assert errors(TYPES) == {}


@checkers
def test_what_raises_is_refused(errors):
    setup, *wrong = WRONG.strip().splitlines()
    assert list(errors(WRONG)) == wrong
