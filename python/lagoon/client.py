"""A thin client of the Open Inference Protocol over HTTP, for numpy arrays."""

import http.client
import json
import urllib.parse

import numpy as np

TYPES = {"BOOL": np.bool_, "INT8": np.int8, "INT16": np.int16, "INT32": np.int32, "INT64": np.int64,
         "UINT8": np.uint8, "UINT16": np.uint16, "UINT32": np.uint32, "UINT64": np.uint64,
         "FP16": np.float16, "FP32": np.float32, "FP64": np.float64}
NAMES = {np.dtype(kind): name for name, kind in TYPES.items()}
LENGTH = "Inference-Header-Content-Length"


def _encoded(array):
    """(datatype, bytes): the array as the protocol sends it. Strings are an array of bytes, text or objects."""
    if array.dtype.kind not in "OSU":
        return NAMES[array.dtype], array.tobytes()
    texts = [text.encode() if isinstance(text, str) else text for text in array.ravel().tolist()]
    return "BYTES", b"".join(len(text).to_bytes(4, "little") + text for text in texts)


def _strings(data):
    texts, at = [], 0
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at:at + 4], "little")
        texts.append(data[at + 4:end])
        at = end
    return np.array(texts, np.object_)


class RequestFailed(Exception):
    """The server refused or could not answer. `status`: of HTTP; 503 may pass when the request is sent again."""

    def __init__(self, status, message):
        super().__init__(f"HTTP {status}: {message}")
        self.status = status


class Client:
    """One connection, which is opened again when the server has closed it. Not thread-safe."""

    def __init__(self, url, timeout=60):
        """`url`: as in "http://127.0.0.1:8000"; `timeout`: seconds without a byte."""
        parts = urllib.parse.urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname, parts.port or 8000, timeout=timeout)

    def infer(self, model, inputs, *, version="", timeout_us=0):
        """{output: array} for `inputs`, {input: array}. Strings come as arrays of bytes objects. `timeout_us`: from now
        on; 0: none."""
        arrays = {name: np.ascontiguousarray(array) for name, array in inputs.items()}
        encoded = {name: _encoded(array) for name, array in arrays.items()}
        head = {"inputs": [{"name": name, "datatype": encoded[name][0], "shape": list(array.shape),
                            "parameters": {"binary_data_size": len(encoded[name][1])}}
                           for name, array in arrays.items()],
                "parameters": {"binary_data_output": True}}
        if timeout_us:
            head["parameters"]["timeout"] = timeout_us
        text = json.dumps(head).encode()
        path = f"/v2/models/{urllib.parse.quote(model, safe='')}" + (f"/versions/{version}" if version else "") + "/infer"
        body = b"".join([text, *(data for _, data in encoded.values())])
        fields, answer = self._ask("POST", path, body, {LENGTH: str(len(text))})
        return self._read(answer, int(fields.get(LENGTH, len(answer))))

    def get(self, path):
        """The JSON that the server answers to a GET, such as of "/v2/models/m/stats"."""
        return json.loads(self._ask("GET", path)[1])

    def close(self):
        self._connection.close()

    def _ask(self, method, path, body=None, fields=None):
        try:
            self._connection.request(method, path, body, fields or {})
            reply = self._connection.getresponse()
            answer = reply.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()  # the next request opens a connection of its own
            raise
        if reply.status != 200:
            try:
                message = json.loads(answer)["error"]
            except (ValueError, KeyError, TypeError):
                message = answer[:200].decode(errors="replace")
            raise RequestFailed(reply.status, message)
        return reply.headers, answer

    @staticmethod
    def _read(answer, length):
        outputs, begin = {}, length
        for output in json.loads(answer[:length])["outputs"]:
            size = output["parameters"]["binary_data_size"]
            if output["datatype"] == "BYTES":
                values = _strings(answer[begin:begin + size])
            else:
                values = np.frombuffer(answer, np.uint8, size, begin).view(TYPES[output["datatype"]])
            outputs[output["name"]] = values.reshape(output["shape"])
            begin += size
        return outputs
