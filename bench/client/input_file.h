#pragma once

#include <string>

#include "plan/tensor.h"

namespace lagoon::bench {

/// An input of a model whose values lie in a file, as raw numbers in C order, so that several
/// processes send the same values.
struct InputFile {
  std::string name;
  DataType type = DataType::kFloat32;
  Dims dims;
  std::string file;
};

}  // namespace lagoon::bench
