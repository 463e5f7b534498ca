#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"
#include "graph/onnx_model.h"
#include "plan/tensor.h"

namespace lagoon {

/// How pixels (0..255) become an image model's input: as 0..1; as 0..1, then normalised by
/// ImageNet's mean and deviation; unchanged.
enum class Normalization { kUnit, kImageNet, kRaw };

/// Reads one tensor of `spec`'s type from a file. Where a dim of `spec` is -1, the file decides; if
/// none is, the file needs only as many elements as `spec`. The ending of the name decides how:
///   .npy                  numbers or bools of any type, in C order, format 1 to 3; converted to
///                         `spec`'s type; for strings, text (|S or <U)
///   .json                 nested or flat numbers or strings; or the body of an inference request,
///                         in which the input `spec.name` is read
///   .png .jpg .jpeg .bmp  resized to the model's FP32 [1,C,H,W] (C is 1 or 3) and normalised; not
///                         resized where H and W are open
/// Errors are kInvalidArgument and name the file, its content and what the model takes.
Result<Constant> ReadTensor(const std::string& path, const TensorSpec& spec,
                            Normalization normalization);

/// The same for an input of a model. If the model leaves the shape open, the file must be .npy and
/// decides the shape.
Result<Constant> ReadInput(const std::string& path, const DeclaredTensor& input,
                           Normalization normalization);

/// Reads a whole .npy file with its own type and shape.
Result<Constant> ReadNpy(const std::string& path);

/// The name of the .npy file of tensor `name`: "/" becomes "_".
std::string FileNameFor(std::string name);

/// Writes a .npy file in C order, format 1. The format has no bfloat16: it is written as float32.
/// Strings are written as bytes of the longest one's length (|S).
Status WriteNpy(const std::string& path, const TensorSpec& spec, const std::byte* data);

}  // namespace lagoon
