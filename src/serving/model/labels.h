#pragma once

// Label files: the names of an output's classes (`label_filename` of config.pbtxt).

#include <cstddef>
#include <string>

#include "base/status.h"
#include "serving/config/model_config.pb.h"
#include "serving/core/request.h"
#include "serving/model/signature.h"

namespace lagoon {

inline constexpr std::size_t kMaxLabelFileBytes = std::size_t{4} << 20;

/// The lines of `text`, a class each. A carriage return at the end of a line is not part of it.
Labels ParseLabels(const std::string& text);

/// Reads the label files of the outputs of `config` into `signature.labels`. `folder`: the model's,
/// in which the files lie. kInvalidArgument names the output and the file, if the file leads out of
/// the folder, cannot be read, or has more than kMaxLabelFileBytes.
Status ReadLabels(const std::string& folder, const inference::ModelConfig& config,
                  Signature& signature);

}  // namespace lagoon
