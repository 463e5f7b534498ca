#include "server/grpc/grpc_unserved.h"

#include <fmt/format.h>

#include "base/text.h"
#include "server/unserved.h"

namespace lagoon {
namespace {

// Finishes at once, without reading what the client sends.
class Refusal final : public grpc::ServerGenericBidiReactor {
 public:
  explicit Refusal(const std::string& message) {
    Finish({grpc::StatusCode::UNIMPLEMENTED, message});
  }
  void OnDone() override { delete this; }
};

}  // namespace

grpc::ServerGenericBidiReactor* GrpcUnserved::CreateReactor(
    grpc::GenericCallbackServerContext* context) {
  const std::string_view extension = UnservedExtensionOfRpc(context->method());
  return new Refusal(extension.empty()
                         ? fmt::format("method {} is not served", Quoted(context->method()))
                         : UnservedMessage(extension));
}

}  // namespace lagoon
