#pragma once

// Suppression of boxes that overlap a box with a higher score, as ONNX Runtime computes it.

#include <cstddef>

#include "kernels/kernel.h"

namespace lagoon {

struct NonMaxSpec {
  std::size_t batch = 1, classes = 1, boxes = 1;
  std::size_t most = 1;          // the most boxes that one class of one image may have
  bool center = false;           // boxes are [x center, y center, width, height], not two corners
  bool iou_threshold = false;    // there is such an input; otherwise 0
  bool score_threshold = false;  // there is such an input; otherwise every score counts
};

/// Inputs: boxes [batch, boxes, 4] and scores [batch, classes, boxes] in fp32, the number of boxes
/// per class (INT64), [iou threshold], [score threshold]. Outputs: chosen (INT32) [batch, classes,
/// most], the boxes in the order of their scores (of equal scores the first one first), and counts
/// (INT64) [batch, classes]. A block computes one class of one image.
Result<Kernel> MakeNonMaxChoose(const NonMaxSpec& spec);

/// Inputs: chosen and counts. Outputs: y (INT64) [selected, 3] with batch, class and box, and its
/// sizes (INT64) [2].
Result<Kernel> MakeNonMaxGather(const NonMaxSpec& spec);

}  // namespace lagoon
