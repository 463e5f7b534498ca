#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "plan/tensor.h"

namespace lagoon {

/// How pixels (0..255) become an image model's input.
enum class Normalization { kUnit, kImageNet, kRaw };

/// Reads one FP32 tensor of `spec`'s shape from a file, by its ending:
///   .npy               float32 (or uint8, float64: converted), C order, format 1 to 3
///   .json              nested or flat numbers; or an inference request's body: the input named
///   `spec.name` .png .jpg .bmp     resized to the model's [1,C,H,W] (C 1 or 3) and normalised
/// kInvalidArgument names the file, what it holds and what the model takes.
Result<std::vector<float>> ReadTensor(const std::string& path, const TensorSpec& spec,
                                      Normalization normalization);

/// Writes float32, C order, format 1.
Status WriteNpy(const std::string& path, const Dims& dims, const float* data);

}  // namespace lagoon
