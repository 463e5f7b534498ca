#pragma once

#include <grpcpp/support/byte_buffer.h>

#include "base/status.h"
#include "server/grpc/grpc_service.pb.h"
#include "server/grpc/message_pool.h"

namespace lagoon {

using InferMessagePool = MessagePool<inference::ModelInferRequest>;

/// Reads a message as it came, compressed or not, and consumes `raw`. kInvalidArgument: it is no
/// ModelInferRequest; kResourceExhausted: it becomes too large when it is inflated.
Status ReadInferMessage(grpc::ByteBuffer& raw, inference::ModelInferRequest& message);

}  // namespace lagoon
