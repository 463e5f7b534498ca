"""A control loop beside a detector, both with ONNX Runtime in one process. Two lines make it real-time.

    python two_lines.py              the program as it was
    python two_lines.py --lagoon     with the two lines (pip install lagoon-ort)

Prints how long the controller's steps took while the detector ran without a pause.
"""

import sys
import threading
import time

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper


def network(name, layers, size, rows):
    """A model of fully connected layers, in place of the reader's own file."""
    random = np.random.default_rng(0)
    nodes, weights, value = [], [], "x"
    for layer in range(layers):
        weight = random.standard_normal((size, size)).astype(np.float32) / np.float32(np.sqrt(size))
        weights.append(numpy_helper.from_array(weight, f"w{layer}"))
        nodes.append(helper.make_node("MatMul", [value, f"w{layer}"], [f"m{layer}"]))
        nodes.append(helper.make_node("Relu", [f"m{layer}"], [f"r{layer}"]))
        value = f"r{layer}"
    graph = helper.make_graph(nodes, name, [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, size])],
                              [helper.make_tensor_value_info(value, TensorProto.FLOAT, [rows, size])], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def main():
    controller_options = detector_options = None
    if "--lagoon" in sys.argv:
        import lagoon_ort  # pylint: disable=import-outside-toplevel

        controller_options = lagoon_ort.options({"class": "real-time"})  # the first line
        detector_options = lagoon_ort.options({"class": "best-effort"})  # the second
    controller = onnxruntime.InferenceSession(network("controller", 4, 64, 1), controller_options)
    detector = onnxruntime.InferenceSession(network("detector", 12, 1024, 256), detector_options)

    ended = threading.Event()

    def detect():
        image = np.zeros((256, 1024), np.float32)
        while not ended.is_set():
            detector.run(None, {"x": image})

    thread = threading.Thread(target=detect)
    thread.start()
    state, times = np.ones((1, 64), np.float32), []
    for _ in range(500):
        time.sleep(0.002)
        begin = time.perf_counter()
        controller.run(None, {"x": state})
        times.append((time.perf_counter() - begin) * 1e3)
    ended.set()
    thread.join()
    print(f"{controller.get_providers()[0]}: a step took {np.percentile(times, 50):.3f} ms at the median, "
          f"{np.percentile(times, 99):.3f} ms at the 99th percentile, {max(times):.3f} ms at most")


if __name__ == "__main__":
    main()
