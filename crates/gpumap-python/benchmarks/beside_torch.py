"""Measures the package beside PyTorch and CuPy on one GPU, arrays on it: medians in milliseconds, and as JSON.

usage: python benchmarks/beside_torch.py [--json FILE]
"""

import argparse
import json
import sys
import time

import gpumap_rs as gm
import torch

try:
    import cupy
except ImportError:
    cupy = None


def median(call, runs, warm=2):
    """The median of some calls in milliseconds, each waited for."""
    for _ in range(warm):
        call()
    torch.cuda.synchronize()
    took = []
    for _ in range(runs):
        begin = time.perf_counter()
        call()
        torch.cuda.synchronize()
        took.append(time.perf_counter() - begin)
    return sorted(took)[len(took) // 2] * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", help="where results go as JSON")
    parser.add_argument("--sizes", default="10000000,100000000")
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes.split(",")]
    random = torch.Generator(device="cuda")
    random.manual_seed(1)

    def draw(most, n):
        return torch.randint(0, most, (n,), device="cuda", generator=random)

    rows = []

    def add(name, n, **calls):
        row = {"name": name, "n": n}
        for who, call in calls.items():
            if call is not None:
                row[who] = median(call, 5 if who == "gpumap" else 3, 2 if who == "gpumap" else 1)
        rows.append(row)
        figures = ", ".join(f"{who} {row[who]:.4g}" for who in calls if who in row)
        print(f"{name}, {n:,}: {figures} ms", flush=True)

    few = draw(1 << 40, 1_000)
    table = gm.Map("i64", "i64", capacity=1_000_000, device="cuda:0")
    table.insert(few, few)
    add("get of present keys, with a default", 1_000, gpumap=lambda: table.get(few, default=0))
    add("insert of present keys", 1_000, gpumap=lambda: table.insert(few, few))
    for n in sizes:
        for percent in (1, 10, 100):
            x = draw(max(n * percent // 100, 1), n) * 7919
            y = None if cupy is None else cupy.from_dlpack(x)
            add(
                f"unique with inverse and counts, {percent} % of n possible",
                n,
                gpumap=lambda: gm.unique(x, inverse=True, counts=True),
                torch=lambda: torch.unique(x, return_inverse=True, return_counts=True),
                cupy=None
                if y is None
                else lambda: cupy.unique(y, return_inverse=True, return_counts=True),
            )
            add(
                f"unique, {percent} % of n possible",
                n,
                gpumap=lambda: gm.unique(x),
                torch=lambda: torch.unique(x),
            )
            del x, y
        a, b = draw(1 << 40, n), draw(1 << 40, n)
        add("isin", n, gpumap=lambda: gm.isin(a, b), torch=lambda: torch.isin(a, b))
        group, value = a % 1_000_000, torch.rand(n, device="cuda", generator=random)
        del a, b
        add(
            "group_by: count, sum, min and max of f32, 1 M groups",
            n,
            gpumap=lambda: gm.group_by(
                group, n="count", s=("sum", value), lo=("min", value), hi=("max", value)
            ),
        )
        del group, value
    if options.json:
        device = torch.cuda.get_device_name(0)
        report = {"device": device, "torch": torch.__version__, "rows": rows}
        if cupy is not None:
            report["cupy"] = cupy.__version__
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
