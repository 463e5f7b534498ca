"""y = x + 1: a model that is a program in Python, and calls of its methods in order."""
import json

import triton_python_backend_utils as pb_utils


class TritonPythonModel:

    def initialize(self, args):
        """Once, when the model is loaded."""
        output = pb_utils.get_output_config_by_name(json.loads(args["model_config"]), "y")
        self.kind = pb_utils.triton_string_to_numpy(output["data_type"])

    def execute(self, requests):
        """Requests that run together; a list of as many responses."""
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("y", (x + 1).astype(self.kind))]))
        return responses

    def finalize(self):
        """When the model is unloaded, or the server stops."""
