#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "graph/budget.h"
#include "graph/graph.h"
#include "onnx/onnx_pb.h"

namespace lagoon {

/// Lagoon's type for an ONNX element type; nothing for strings, complex numbers and unknown ones.
std::optional<DataType> ToDataType(int onnx_type);
/// The reverse.
std::int64_t ToOnnxType(DataType type);

/// Where tensors may find their data and what they may take.
struct TensorSource {
  std::string folder;  // of the model: external data lies below it
  ByteBudget& budget;
};

/// The constant that `proto` describes, from raw_data, a typed field or external data; the size is
/// checked against the shape before memory is taken. Empties proto's data on the way, so that a
/// large model is not held twice. Errors say what is wrong, not which tensor.
Result<Constant> ImportTensor(onnx::TensorProto& proto, const TensorSource& source);

/// Where a weight's external data lies, as the model says: nothing of it is checked but that offset
/// and length are sizes.
struct ExternalRange {
  std::string location;
  std::size_t offset = 0;
  std::optional<std::size_t> length;
};
Result<ExternalRange> ReadExternalRange(const onnx::TensorProto& proto);

}  // namespace lagoon
