#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"
#include "plan/tensor.h"

namespace lagoon {

/// How pixels (0..255) become an image model's input.
enum class Normalization { kUnit, kImageNet, kRaw };

/// Reads one tensor of `spec`'s type and shape from a file, by its ending:
///   .npy               any numbers or bools, C order, format 1 to 3; converted to the type
///   .json              nested or flat numbers; or an inference request's body: the input named
///                      `spec.name`
///   .png .jpg .bmp     resized to the model's FP32 [1,C,H,W] (C 1 or 3) and normalised
/// kInvalidArgument names the file, what it holds and what the model takes.
Result<std::vector<std::byte>> ReadTensor(const std::string& path, const TensorSpec& spec,
                                          Normalization normalization);

/// A whole .npy file.
Result<Constant> ReadNpy(const std::string& path);

/// Writes C order, format 1; bfloat16, which the format does not have, as float32.
Status WriteNpy(const std::string& path, const TensorSpec& spec, const std::byte* data);

}  // namespace lagoon
