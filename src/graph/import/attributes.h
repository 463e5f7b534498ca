#pragma once

#include "base/status.h"
#include "graph/graph.h"
#include "graph/import/tensor_import.h"

namespace lagoon {

/// Converts an attribute. kUnimplemented for graphs (scope.h has them), lists of graphs and lists
/// of tensors. A type becomes the number of its element type, 0 if it is no tensor. Error messages
/// do not name the attribute.
Result<Attribute> ImportAttribute(onnx::AttributeProto& proto, const TensorSource& source);

/// The kind of an attribute as one letter, as op tables spell it: 'i' integer, 'I' integers, 'f'
/// float, 'F' floats, 's' string, 'S' strings, 't' tensor.
char KindLetter(const Attribute& attribute);

}  // namespace lagoon
