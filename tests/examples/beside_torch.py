"""Captures graphs with PyTorch, in its default mode, while maps work in other threads of the process.

usage: beside_torch.py libbeside_torch.so [seconds]

Every capture must succeed and every replay be right; so must every answer of the maps.
"""

import ctypes
import sys
import threading
import time

import torch

library, seconds = ctypes.CDLL(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10
library.gpumap_soak.argtypes = [ctypes.c_uint32, ctypes.c_uint64]
library.gpumap_soak.restype = ctypes.c_int64

x = torch.arange(1 << 16, dtype=torch.float32, device="cuda")
weights = torch.randn(256, 256, device="cuda")
(x.view(256, 256) @ weights).sum().item()  # Handles of cuBLAS are made outside of captures.

calls = []
thread = threading.Thread(target=lambda: calls.append(library.gpumap_soak(seconds, 7)))
thread.start()
captures = 0
while thread.is_alive():
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2 + captures
        z = y.view(256, 256) @ weights
        time.sleep(0.003)
    x.fill_(captures)
    graph.replay()
    torch.cuda.synchronize()
    expected = torch.full_like(x, captures * 2 + captures)
    assert torch.equal(y, expected), f"replay {captures} is wrong"
    assert torch.isfinite(z).all()
    captures += 1
thread.join()
print(f"{captures} captures of PyTorch {torch.__version__} beside {calls[0]} calls of gpumap")
passed = calls[0] > 0 and captures > 0
print(f"{int(passed)} passed, {int(not passed)} failed")
sys.exit(not passed)
