#pragma once

#include <grpcpp/generic/async_generic_service.h>

namespace lagoon {

/// Answers every method that GrpcService does not have with UNIMPLEMENTED. The message names the
/// extension of Triton that the method belongs to, or the method.
class GrpcUnserved final : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;
};

}  // namespace lagoon
