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
  std::size_t round = 0;         // of NonMaxChoose: below NonMaxRounds()
};

/// Number of kernels that choose, one after the other, so that a block, which chooses for one
/// class of one image, is short. With very many classes and boxes it is 1: their state would need
/// too much memory.
std::size_t NonMaxRounds(const NonMaxSpec& spec);

/// What a round leaves to the next one, in bytes.
std::size_t NonMaxStateBytes(const NonMaxSpec& spec);

/// Inputs: boxes [batch, boxes, 4] in fp32; of the first round scores [batch, classes, boxes] in
/// fp32, of the others the state of the round before; the number of boxes per class (INT64), [iou
/// threshold], [score threshold]. Output: the state; of the last round chosen (INT32) [batch,
/// classes, most], the boxes in the order of their scores (of equal scores the first one first),
/// and counts (INT64) [batch, classes].
Result<Kernel> MakeNonMaxChoose(const NonMaxSpec& spec);

/// Inputs: chosen and counts. Outputs: y (INT64) [selected, 3] with batch, class and box, and its
/// sizes (INT64) [2].
Result<Kernel> MakeNonMaxGather(const NonMaxSpec& spec);

}  // namespace lagoon
