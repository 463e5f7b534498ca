"""A control loop of 500 Hz beside a detector and a text encoder, in one process:

    python control_loop.py POLICY.onnx DETECTOR.onnx ENCODER.onnx [SECONDS]

The policy is real-time: its steps take the cores from the other two, in the middle of a kernel. A step without an answer by the
next one keeps the last action, and counts as missed. `./run wheel` makes the package lagoon.
"""

import collections
import sys
import threading
import time

import numpy as np

from lagoon import Device, local

PERIOD_NS = 2_000_000


def prepared(model):
    """A run with memory for its inputs. Open sizes are 1."""
    return model.prepare({info.name: np.zeros([max(size, 1) for size in info.shape], info.dtype) for info in model.inputs})


def run_in_a_loop(run, ended, counts, name):
    while not ended.is_set():
        run.sync()
        counts[name] += 1


def control(policy, seconds):
    times, missed, action = [], collections.Counter(), None
    begin = time.monotonic_ns()
    ticks = range(begin, begin + int(seconds * 1e9), PERIOD_NS)
    for tick in ticks:
        time.sleep(max(0, tick - time.monotonic_ns()) / 1e9)
        # The robot's state goes to the arrays that the run was prepared with.
        try:
            action = policy.sync(due_ms=(tick + PERIOD_NS - time.monotonic_ns()) / 1e6)
        except local.Failed as failed:
            if failed.code != "deadline exceeded":
                raise
            missed[policy.result()["why_name"]] += 1  # and the last action holds
            continue
        times.append((time.monotonic_ns() - tick) / 1e6)
    assert action is not None, "no step was in time"
    print(f"{len(ticks)} steps, {len(times)} in time: {np.percentile(times, 50):.3f} ms at the median, "
          f"{np.percentile(times, 99):.3f} at the 99th percentile, {max(times):.3f} at most")
    for why, count in missed.items():
        print(f"{count} missed: {why}")


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    with Device() as device:
        policy = prepared(device.load(sys.argv[1], job_class="real-time"))
        neighbours = {name: prepared(device.load(path)) for name, path in zip(("detector", "encoder"), sys.argv[2:4])}
        ended, counts = threading.Event(), collections.Counter()
        threads = [threading.Thread(target=run_in_a_loop, args=(run, ended, counts, name)) for name, run in neighbours.items()]
        for thread in threads:
            thread.start()
        try:
            control(policy, float(sys.argv[4]) if len(sys.argv) > 4 else 10)
        finally:
            ended.set()
            for thread in threads:
                thread.join()
        print(f"meanwhile {counts['detector']} runs of the detector and {counts['encoder']} of the encoder")


if __name__ == "__main__":
    main()
