"""Comparisons with other libraries: `python -m benchmarks latency chain train memory eager coldstart`.

Every library runs in processes of its own, one at a time, on the same inputs, in float32, with all cores. Each process
starts with an empty cache unless the row says otherwise; the libraries take turns, round by round, so that a slow
minute of the machine meets them all. Results are blocked on, and compared with one another before any time is believed.
"""
