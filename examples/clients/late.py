"""Lists the jobs of trace.json that expired, each with its longest block (docs/guide/tutorial.md)."""

import json

events = [e for e in json.load(open("trace.json"))["traceEvents"] if e["ph"] == "X"]
for job in events:
    if job["args"].get("outcome") != "expired":
        continue
    blocks = [e for e in events if e["args"].get("job") == job["args"]["job"] and "tile" in e["args"]]
    longest = max(blocks, key=lambda e: e["dur"])
    print(f"{job['name']}: {job['dur'] / 1e3:.0f} ms, {len(blocks)} blocks, "
          f"longest {longest['name']} {longest['dur'] / 1e3:.1f} ms")
