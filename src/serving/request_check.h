#pragma once

// Whether a request fits a model, and where its tensors go.

#include <string>
#include <vector>

#include "base/status.h"
#include "serving/core.h"
#include "serving/signature.h"

namespace lagoon {

struct RequestBinding {
  std::int64_t batch = 1;           // rows: the first dim of every input
  std::vector<const void*> inputs;  // of each plan input: the request's own bytes
  std::vector<std::size_t>
      outputs;  // the outputs to answer with, in order: indexes into Signature::outputs
};

/// A client's shape, fit for a message: of more than 16 dimensions only their number.
std::string ShownShape(const Dims& dims);

/// kUnimplemented names an output that has no form as text (InferRequest::form).
/// kInvalidArgument names model, tensor and both values: an input or output that is unknown,
/// missing or there twice, a wrong type, shape or number of bytes, an empty batch, one above the
/// model's maximum, and inputs of different batches.
Result<RequestBinding> BindRequest(const InferRequest& request, const Signature& signature);

}  // namespace lagoon
