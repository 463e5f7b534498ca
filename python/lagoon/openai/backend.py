"""Asks the Lagoon server for tokens, over gRPC."""

import struct

import grpc
from tritonclient.grpc import service_pb2, service_pb2_grpc

from lagoon.openai.requests import ApiError

# The codes of gRPC that are about the request, as statuses of HTTP. All others are 500.
STATUSES = {3: 400, 4: 504, 5: 404, 8: 503, 12: 501, 14: 503}


class Limits:
    """What a model takes: tokens of a prompt, and stop tokens."""

    def __init__(self, context, stops):
        self.context, self.stops = context, stops


class Backend:
    """One connection to the server. Used by one event loop."""

    def __init__(self, url):
        self._channel = grpc.aio.insecure_channel(url)
        self._stub = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)

    async def close(self):
        await self._channel.close()

    async def ready(self, model):
        """ApiError: the server cannot be reached."""
        try:
            return (await self._stub.ModelReady(service_pb2.ModelReadyRequest(name=model))).ready
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.UNAVAILABLE:
                raise _error(error.code().value[0], error.details()) from error
            return False

    async def check(self, model):
        """ApiError: the server will never stream the model's answers, as the front of a fleet of servers."""
        try:
            await self._stub.ModelReady(service_pb2.ModelReadyRequest(name=model), timeout=10)
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.UNIMPLEMENTED:
                raise _error(error.code().value[0], error.details()) from error

    async def limits(self, model):
        """ApiError: the server has no such model, or the model does not generate text."""
        try:
            metadata = await self._stub.ModelMetadata(service_pb2.ModelMetadataRequest(name=model))
        except grpc.RpcError as error:
            raise _error(error.code().value[0], error.details()) from error
        sizes = {tensor.name: list(tensor.shape) for tensor in metadata.inputs}
        if set(sizes) != {"prompt", "length", "max_tokens", "sampling", "seed", "stop"}:
            raise ApiError(501, f"model '{model}' does not generate text: its inputs are {', '.join(sizes)}")
        return Limits(sizes["prompt"][0], sizes["stop"][0])

    async def generate(self, model, limits, tokens, stop_tokens, request):
        """The new tokens one by one. The server ends the request when this generator is closed."""
        asked = _ask(model, limits, tokens, stop_tokens, request)
        call = self._stub.ModelStreamInfer()
        try:
            await call.write(asked)
            await call.done_writing()
            async for answer in call:
                if answer.error_message:
                    code = answer.infer_response.parameters["lagoon_code"].int64_param
                    raise _error(code, answer.error_message)
                yield struct.unpack("<q", answer.infer_response.raw_output_contents[0])[0]
        except grpc.RpcError as error:
            raise _error(error.code().value[0], error.details()) from error
        finally:
            call.cancel()


def _ask(model, limits, tokens, stop_tokens, request):
    asked = service_pb2.ModelInferRequest(model_name=model)
    asked.parameters["priority"].uint64_param = request.priority
    def add(name, kind, values):
        asked.inputs.add(name=name, datatype="FP32" if kind == "f" else "INT64", shape=[len(values)])
        asked.raw_input_contents.append(struct.pack(f"<{len(values)}{kind}", *values))
    add("prompt", "q", [*tokens, *[0] * (limits.context - len(tokens))])
    add("length", "q", [len(tokens)])
    add("max_tokens", "q", [request.max_tokens or limits.context])
    add("sampling", "f", [request.temperature, request.top_p])
    add("seed", "q", [request.seed])
    add("stop", "q", [*stop_tokens, *[-1] * (limits.stops - len(stop_tokens))])
    return asked


def _error(code, message):
    status = STATUSES.get(code, 500)
    unknown = status == 404
    return ApiError(status, message, "model" if unknown else None, "model_not_found" if unknown else None)
