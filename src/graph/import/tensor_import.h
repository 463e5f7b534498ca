#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "graph/budget.h"
#include "graph/graph.h"
#include "graph/import/file.h"
#include "graph/weight_source.h"
#include "onnx/onnx_pb.h"

namespace lagoon {

/// Lagoon's type for an ONNX element type; nothing for complex numbers and unknown types.
std::optional<DataType> ToDataType(int onnx_type);
/// The ONNX element type for `type`.
std::int64_t ToOnnxType(DataType type);

/// Where tensors may find their data, and the memory they may take.
struct TensorSource {
  ExternalPlace place;  // of external data
  ByteBudget& budget;
  std::shared_ptr<const WeightSource> weights = nullptr;  // ImportOptions::weights
};

/// The place from which the bytes of a constant can be read again: `file`, which is open, or the
/// data that `weights` has under the name `location`. Where `file` holds external data, `location`
/// is its name in the model, for messages. If both are null, the bytes are somewhere else.
struct FileRange {
  std::shared_ptr<const File> file;
  std::size_t offset = 0;
  std::shared_ptr<const WeightSource> weights = nullptr;
  std::string location = {};
};

/// The constant that `proto` describes, from raw_data, a typed field or external data. The data
/// size is checked against the shape before memory is allocated. Empties proto's data during the
/// conversion, so that a large model is not in memory twice. Errors say what is wrong, but not in
/// which tensor. `raw`: where proto's raw_data lie in the file; if they or external data are large,
/// the constant is deferred. `name`: for messages; empty: the constant is never deferred.
Result<Constant> ImportTensor(onnx::TensorProto& proto, const TensorSource& source,
                              FileRange raw = {}, std::string_view name = {});

/// Where a weight's external data lies, according to the model. Not checked, except that offset and
/// length are valid sizes.
struct ExternalRange {
  std::string location;
  std::size_t offset = 0;
  std::optional<std::size_t> length;
};
Result<ExternalRange> ReadExternalRange(const onnx::TensorProto& proto);

}  // namespace lagoon
