#include "graph/import/model_file.h"

#include <fmt/format.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <unistd.h>

#include <limits>

#include "graph/import/file.h"
#include "graph/import/wire_scan.h"

namespace lagoon {

Result<std::unique_ptr<onnx::ModelProto>> ReadModelFile(const std::string& path,
                                                        std::size_t max_bytes) {
  LAGOON_ASSIGN_OR_RETURN(const File file, File::Open(path));
  constexpr std::size_t kProtobufLimit = std::numeric_limits<int>::max();
  if (file.size() > kProtobufLimit) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("the file has {} bytes and protobuf reads at most {} (2 GiB); save the "
                            "weights as external data",
                            file.size(), kProtobufLimit));
  }
  if (file.size() == 0) return Fail(ErrorCode::kInvalidArgument, "the file is empty");
  LAGOON_RETURN_IF_ERROR(ScanWireFormat(file, max_bytes));

  auto model = std::make_unique<onnx::ModelProto>();
  google::protobuf::io::FileInputStream stream(file.fd(), 1 << 18);
  if (::lseek(file.fd(), 0, SEEK_SET) != 0 || !model->ParseFromZeroCopyStream(&stream)) {
    return Fail(ErrorCode::kInvalidArgument, "not an ONNX file, or damaged: it does not parse");
  }
  if (!model->has_graph()) {
    return Fail(ErrorCode::kInvalidArgument, "not an ONNX model: it has no graph");
  }
  return model;
}

}  // namespace lagoon
