"""One gradient, fused kernel and PyTorch side by side: `python benchmarks/gradient.py --preset main --threads 1 2 --scaling`."""

from __future__ import annotations

import argparse

import cotflow as cf
from cotflow import benchmark


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="main")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--formulations", nargs="+", choices=list(benchmark.FORMULATIONS))
    parser.add_argument("--scaling", action="store_true", help="also the kernel as N, L and n grow")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    cfg = cf.Config.preset(arguments.preset)
    timings = benchmark.compare(cfg, arguments.threads, arguments.rounds, arguments.formulations)
    grown = benchmark.scaling(cfg, arguments.threads[0]) if arguments.scaling else None
    print(benchmark.report(cfg, timings, grown, arguments.json))


if __name__ == "__main__":
    main()
