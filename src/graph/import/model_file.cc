#include "graph/import/model_file.h"

#include <fmt/format.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <unistd.h>

#include <limits>
#include <utility>

namespace lagoon {

Result<ModelFile> ReadModelFile(const std::string& path, std::size_t max_bytes) {
  ModelFile read;
  LAGOON_ASSIGN_OR_RETURN(File opened, File::Open(path));
  read.file = std::make_shared<const File>(std::move(opened));
  const File& file = *read.file;
  constexpr std::size_t kProtobufLimit = std::numeric_limits<int>::max();
  if (file.size() > kProtobufLimit) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("the file has {} bytes and protobuf reads at most {} (2 GiB); save the "
                            "weights as external data",
                            file.size(), kProtobufLimit));
  }
  if (file.size() == 0) return Fail(ErrorCode::kInvalidArgument, "the file is empty");
  LAGOON_RETURN_IF_ERROR(ScanWireFormat(file, max_bytes, &read.raw_data));

  read.model = std::make_unique<onnx::ModelProto>();
  google::protobuf::io::FileInputStream stream(file.fd(), 1 << 18);
  if (::lseek(file.fd(), 0, SEEK_SET) != 0 || !read.model->ParseFromZeroCopyStream(&stream)) {
    return Fail(ErrorCode::kInvalidArgument, "not an ONNX file, or damaged: it does not parse");
  }
  if (!read.model->has_graph()) {
    return Fail(ErrorCode::kInvalidArgument, "not an ONNX model: it has no graph");
  }
  const auto initialisers = static_cast<std::size_t>(read.model->graph().initializer_size());
  read.raw_data.resize(initialisers);
  return read;
}

}  // namespace lagoon
