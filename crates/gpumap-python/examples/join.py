"""Joins two tables on a key: the map has the row of the right table for each key, and every row of the left looks its key up."""

import numpy as np

import gpumap_rs as gm

rng = np.random.default_rng(7)
customers = rng.permutation(10_000).astype(np.int64)  # distinct keys
city = rng.integers(0, 50, customers.size)
orders = rng.integers(0, 20_000, 100_000)  # half of them of no customer

rows = gm.Map("i64", "i64", capacity=customers.size)
rows.insert(customers, np.arange(customers.size))
row, is_known = rows.get(orders)

joined = city[row[is_known]]
print(f"{is_known.sum()} of {orders.size} orders have a customer")
print("orders by city:", np.bincount(joined)[:5], "...")
assert (customers[row[is_known]] == orders[is_known]).all()
assert is_known.sum() == np.isin(orders, customers).sum()
