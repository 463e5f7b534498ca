#pragma once

#include "graph/graph.h"

namespace lagoon {

/// Before opset 13 Softmax runs over all axes from `axis` on. Where more than one of these axes is
/// longer than 1, flattens the input to two dimensions and restores the shape of the output, so
/// that every Softmax of the graph runs over one axis.
void NormalizeSoftmax(Graph& graph);

}  // namespace lagoon
