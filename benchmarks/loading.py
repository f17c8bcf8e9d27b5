"""How long a thousand records of the main table take to load: `python benchmarks/loading.py [--records 1000]`.

One trajectory of the right size is saved under many seeds; what is in it does not matter here.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import cotflow as cf
from cotflow.trajectory import record_path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    cfg = cf.Config.preset("main", n_train_seq=64, n_test_seq=16, train_epochs=400, eval_every=1)
    run = cf.simulate(cfg, seed=0, engine="steps")
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for seed in range(arguments.records):
            cf.save(run.assign_attrs(seed=seed), record_path(directory, seed))
        size = sum(file.stat().st_size for file in directory.iterdir()) / 1e6
        print(f"{arguments.records} records of {run.sizes['epoch']} evaluations, {size:.0f} MB")
        for weights in (True, False):
            times = [_seconds(directory, weights) for _ in range(arguments.repeats)]
            print(f"load, weights={weights}: median {statistics.median(times):.2f} s of {[f'{t:.2f}' for t in times]}")


def _seconds(directory: Path, weights: bool) -> float:
    start = time.perf_counter()
    cf.load(directory, weights=weights)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
