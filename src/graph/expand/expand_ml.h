#pragma once

// What the compositions of ai.onnx.ml share.

#include <string_view>

#include "graph/expand/writer.h"

namespace lagoon {

inline constexpr std::string_view kMl = "ai.onnx.ml";

/// The number of classes. Refuses classes whose labels are text.
std::int64_t ClassCount(Writer& w, const char* labels);

/// The labels at the indices `best`: the integers of the attribute `labels`.
ValueId LabelsAt(Writer& w, ValueId best, const char* labels);

/// Scores [batch, classes] after the attribute post_transform.
ValueId PostTransformed(Writer& w, ValueId scores);

/// A score s [batch, 1] for the second of two classes, as scores of both: 1 - s and s, or with
/// `signs` -s and s. With the transform LOGISTIC always the logistic function of -s and s.
ValueId BothScores(Writer& w, ValueId score, bool signs);

/// Sets the outputs of a classifier: the labels of the classes with the greatest score, and the
/// scores after the transform.
void SetClasses(Writer& w, ValueId scores, const char* labels);
/// The same for one score of the second of two classes, which is chosen if the score is above
/// `threshold`.
struct BinaryScore {
  ValueId score = kNoValue;  // [batch, 1]
  double threshold = 0;
  bool signs = false;
};
void SetBinaryClasses(Writer& w, const BinaryScore& binary, const char* labels);

}  // namespace lagoon
