#pragma once

// lagoon.buckets.NAME: sizes to which an open dim of a request is rounded up by padding.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "device/device.h"
#include "local/plans/model_plans.h"
#include "serving/core/request.h"
#include "serving/model/request_check.h"

namespace lagoon {

/// Largest input that padding makes: a small request must not take much memory.
inline constexpr std::size_t kMaxPaddedBytes = std::size_t{256} << 20;

struct TensorAxis {
  std::size_t tensor = 0;  // number of the input or output in the model
  std::size_t axis = 0;
};

/// One open dim of a model, wherever the model has it.
struct BucketDim {
  std::string name;                 // NAME
  std::vector<std::int64_t> sizes;  // ascending, from 1 on
  std::vector<TensorAxis> inputs;
  std::vector<TensorAxis> outputs;  // axes whose size is always that of the dim
};

/// What Pad() did to a request.
struct RequestPadding {
  std::vector<std::int64_t> sizes;  // by dim: the request's own size; 0: not padded
  std::vector<std::unique_ptr<std::byte[]>> inputs;  // to which RequestBinding::inputs point
};

/// Pads the inputs of requests with zeros, so that a few plans serve all sizes, and cuts the
/// outputs back. Only for models whose answers padding does not change (CheckPadding). Immutable
/// after FindOutputs: any thread may use it.
class Buckets {
 public:
  /// `sizes`: by NAME, which is the name of an open dim in the model's file, or "INPUT[AXIS]".
  /// kInvalidArgument names a dim that the model does not have or leave open.
  static Result<Buckets> Find(const OnnxModel& model,
                              const std::map<std::string, std::vector<std::int64_t>>& sizes);

  bool empty() const { return dims_.empty(); }
  const std::vector<BucketDim>& dims() const { return dims_; }
  /// The names, for messages: "'height', 'width'".
  std::string Names() const;

  /// `shapes` with `size(dim)` wherever an input has a dim.
  template <typename SizeOfDim>
  std::vector<Dims> With(std::vector<Dims> shapes, const SizeOfDim& size) const {
    for (const BucketDim& dim : dims_) {
      for (const TensorAxis& at : dim.inputs) shapes[at.tensor][at.axis] = size(dim);
    }
    return shapes;
  }
  /// `shapes` with each combination of the sizes. kInvalidArgument: more than `most` of them.
  Result<std::vector<std::vector<Dims>>> Combinations(const std::vector<Dims>& shapes,
                                                      std::size_t most) const;

  /// Finds out which axes of the outputs have the size of a dim, by shapes of the model near
  /// `shapes`. kUnimplemented names an output whose size depends on a dim in another way, or on
  /// data: no part of it is known to belong to the request.
  Status FindOutputs(const OnnxModel& model, const std::vector<Dims>& shapes);

  /// Rounds up the dims of a request's inputs. A size above the largest bucket stays.
  /// kInvalidArgument names two inputs that disagree on a dim, or one that would have more than
  /// kMaxPaddedBytes.
  Result<RequestPadding> Pad(const Signature& signature, RequestBinding& binding) const;
  /// Cuts output number `output` of the model back.
  void Cut(const RequestPadding& padding, std::size_t output, OutputTensor& tensor) const;

 private:
  std::vector<BucketDim> dims_;
};

/// Copies what two dense tensors of the same rank have in common: the elements of each axis from 0
/// to the smaller of both sizes. `element`: bytes of one.
void CopyCommonPart(const Dims& from_dims, const std::byte* from, const Dims& to_dims,
                    std::byte* to, std::size_t element);

/// Runs the model on made-up inputs, once as they are and once padded, and compares the outputs.
/// `shapes`: of a request. The device must be idle. kInvalidArgument names an output that padding
/// changes. Integers and bools of the inputs are 1, so that a mask hides nothing but the padding.
Status CheckPadding(const Buckets& buckets, ModelPlans& plans, const std::vector<Dims>& shapes,
                    Device& device);

}  // namespace lagoon
