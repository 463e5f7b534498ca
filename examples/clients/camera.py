"""Sends requests to a model of the tutorial: camera.py MODEL RATE SECONDS; rate 0: one after the other (docs/guide/tutorial.md)."""

import http.client
import json
import sys
import time

model, rate, seconds = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
image = bytes(4 * 3 * 224 * 224)  # your picture: FP32, [1,3,224,224]
header = json.dumps({"parameters": {"lagoon_stages": True, "binary_data_output": True}, "inputs": [
    {"name": "input", "datatype": "FP32", "shape": [1, 3, 224, 224],
     "parameters": {"binary_data_size": len(image)}}]}).encode()
server = http.client.HTTPConnection("127.0.0.1", 8000)
times, late, worst, begin = [], 0, (0, {}), time.monotonic()
while time.monotonic() < begin + seconds:
    if rate:
        time.sleep(max(0, begin + (len(times) + late) / rate - time.monotonic()))
    start = time.monotonic()
    server.request("POST", f"/v2/models/{model}/infer", header + image,
                   {"Inference-Header-Content-Length": str(len(header))})
    answer = server.getresponse()
    body, ms = answer.read(), (time.monotonic() - start) * 1e3
    if answer.status != 200:
        late += 1
        print(answer.status, body.decode())
        continue
    times.append(ms)
    size = int(answer.headers["Inference-Header-Content-Length"])
    worst = max(worst, (ms, json.loads(body[:size])["parameters"]), key=lambda one: one[0])
times.sort()
print(f"{model}: {len(times)} answers, {late} without; p50 {times[len(times) // 2]:.1f} ms, "
      f"p99 {times[len(times) * 99 // 100]:.1f} ms, slowest {worst[0]:.1f} ms:")
print({name: round(us) for name, us in worst[1].items() if us})
