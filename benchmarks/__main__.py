"""Command line: `python -m benchmarks NAME... [--peers a,b] [--rounds N] [--output FOLDER]`."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks import harness, report

NAMES = (
    "latency", "chain", "train", "memory", "eager", "layers", "coldstart", "higher_order", "sparse", "gpu",
    "gpu_kernels", "gpu_models", "gpu_host",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Compare eagerjit with other libraries.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one or more of {', '.join(NAMES)}")
    parser.add_argument("--peers", help="only these libraries, separated by commas")
    parser.add_argument("--rounds", type=int, help="repetitions of the whole (each benchmark has its own default)")
    parser.add_argument("--output", type=Path, default=report.RESULTS, help="folder for the results")
    parser.add_argument("--worker", nargs=3, metavar=("NAME", "PEER", "PHASE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        harness.work(*options.worker)
        return
    unknown = [name for name in options.names if name not in NAMES]
    if unknown or not options.names:
        parser.error(f"name some of: {' '.join(NAMES)}" + (f"; unknown: {' '.join(unknown)}" if unknown else ""))
    peers = options.peers.split(",") if options.peers else None
    known = {peer for name in options.names for peer in harness.load(name).PEERS}
    if peers and not known.issuperset(peers):
        parser.error(f"these benchmarks compare {', '.join(sorted(known))}; unknown: {set(peers) - known}")
    for name in options.names:
        record = harness.run_benchmark(name, peers, options.rounds)
        print(f"\n{report.table(record)}\n")
        print("written:", *report.save(record, options.output), "\n", flush=True)


if __name__ == "__main__":
    main()
