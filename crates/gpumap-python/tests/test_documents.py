"""The code in the documents runs, and prints what they say."""

import datetime
import pathlib
import re

import numpy as np
import polars as pl
import pytest

import gpumap_rs as gm

FOLDER = pathlib.Path(__file__).parent.parent
DOCUMENTS = [FOLDER / "README.md", FOLDER / "../../README.md", FOLDER / "../../docs/guide/src/python.md"]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
#: A number or an array in a comment.
VALUE = r"(?:\d+|array\(\[[^\]]*\]\))"
#: A line with the value of its expression, or of what it assigns.
CLAIM = re.compile(rf"(?:(?P<names>[\w, ]+) = )?(?P<code>[^#]+?)  +# (?P<claim>{VALUE}(?:, {VALUE})*)(?!\w)")


def blocks():
    for path in DOCUMENTS:
        # Not all are there where only the package is.
        text = path.read_text() if path.exists() else ""
        for number, block in enumerate(BLOCK.findall(text)):
            yield pytest.param(block, id=f"{path.resolve().parent.name}-{path.stem}-{number}")


def plain(value):
    return [plain(part) for part in value] if isinstance(value, tuple) else np.asarray(value).tolist()


@pytest.fixture
def files(tmp_path, monkeypatch):
    """The files that the documents read, in the folder where their code runs."""
    monkeypatch.chdir(tmp_path)
    sales = {"shop": ["Oslo", "Oslo", "Rome", "Oslo"], "article": ["bread", "milk", "bread", "bread"]}
    day = [datetime.date(2026, 11, 2)] * 4
    pl.DataFrame({**sales, "day": day, "pieces": [2, None, 1, 4], "price": [3.5, 1.25, 3.5, 3.75]}).write_parquet("sales.parquet")
    pl.DataFrame({"name": ["milk", "bread", "wine"], "vat": [7, 8, 19]}).write_csv("articles.csv")


@pytest.mark.parametrize("block", list(blocks()))
def test_code_of_documents(files, block):
    if "import torch" in block and not pytest.importorskip("torch").cuda.is_available():
        pytest.skip("no GPU for PyTorch")
    names = {"np": np, "gm": gm}
    claims = 0
    for line in block.splitlines():
        claim = CLAIM.match(line)
        if claim is None:
            exec(line, names)
            continue
        exec(f"_answer = {claim['code']}", names)
        if claim["names"]:
            exec(f"{claim['names']} = _answer", names)
        expected = eval(claim["claim"], {"array": np.array, "True": True, "False": False})
        assert plain(names["_answer"]) == plain(expected), line
        claims += 1
    assert claims or "torch" in block
