#pragma once

// How nodes are lowered: each file lower_*.cc has the lowerings of a family of ops and, at its end,
// the family's table. Lower() (lower.cc) joins the tables. Here is also what the files share.

#include <optional>
#include <span>
#include <string_view>

#include "kernels/image_window.h"
#include "program/lower/builder.h"

namespace lagoon {

/// Appends the kernels of a node in the graph's normal form (graph/graph.h) and defines its
/// outputs. An error says what is wrong; Lower() adds model, node, op and opset.
using LowerFunction = Status (*)(ProgramBuilder& builder, const Node& node);

struct Lowering {
  std::string_view op;
  LowerFunction lower;
  /// kFloat: computes in fp32. Inputs and outputs of other float types are converted; integers are
  /// not supported. kWide: the same for floats of 16 bits only; other types as they are. kMoves:
  /// moves elements, so that floats of 16 bits that nodes before it have in fp32 stay in fp32.
  enum Types : std::uint8_t { kAny, kFloat, kWide, kMoves } types = kAny;
  bool fuses = false;  // true: supports Node::fused
};

std::span<const Lowering> AttentionLowerings();
std::span<const Lowering> EinsumLowerings();
std::span<const Lowering> ElementwiseLowerings();
std::span<const Lowering> IndexLowerings();
std::span<const Lowering> IntegerConvLowerings();
std::span<const Lowering> IntegerLinearLowerings();
std::span<const Lowering> MatmulLowerings();
std::span<const Lowering> MoveLowerings();
std::span<const Lowering> NbitsLowerings();
std::span<const Lowering> NormalizeLowerings();
std::span<const Lowering> QuantizeLowerings();
std::span<const Lowering> RecurrentLowerings();
std::span<const Lowering> ReduceLowerings();
std::span<const Lowering> ResizeLowerings();
std::span<const Lowering> SampleLowerings();
std::span<const Lowering> SelectLowerings();
std::span<const Lowering> TakeLowerings();
std::span<const Lowering> WindowLowerings();

/// lower_elementwise.cc. An op of plan/elementwise_list.h that needs no more than these has no row.
Status LowerUnary(ProgramBuilder& builder, const Node& node);
Status LowerBinary(ProgramBuilder& builder, const Node& node);  // any number of inputs

/// lower_conv.cc: Conv, MatMul and Gemm with constant weights.
Status LowerImageConv(ProgramBuilder& builder, const Node& node);     // on images
Status LowerPackedMatMul(ProgramBuilder& builder, const Node& node);  // and Gemm
/// lower_window.cc: any Conv.
Status LowerConv(ProgramBuilder& builder, const Node& node);
/// On plain tensors; the weights may be computed.
Status LowerDirectConv(ProgramBuilder& builder, const Node& node);
/// Lowers a node with one spatial axis as a node on images of one row.
Status LowerAsImage(ProgramBuilder& builder, const Node& node, LowerFunction lower);
/// lower_conv_product.cc: a convolution without its bias, of the plain x [N,C,...] and w, which may
/// be computed, in the types that EmitMatMul() multiplies.
Result<Tensor> EmitConvProduct(ProgramBuilder& builder, const Node& node, const Tensor& x,
                               const Tensor& w);
/// [M], or one number, in the dims that broadcast it along the channels of `rank` axes.
Result<Tensor> AlongChannels(ProgramBuilder& builder, const Tensor& x, std::size_t rank);
/// lower_conv_transpose.cc.
Status LowerConvTranspose(ProgramBuilder& builder, const Node& node);

/// lower_volume.cc: Conv over three spatial axes with constant weights.
Status LowerVolumeConv(ProgramBuilder& builder, const Node& node);
/// MaxPool and AveragePool over three axes; `lower` computes them over two.
Status LowerVolumePool(ProgramBuilder& builder, const Node& node, LowerFunction lower);
/// The same node on the images [N,C,D*H,W] of its volumes, if it treats all pixels alike and one of
/// its inputs lies in such images.
Result<std::optional<Node>> OnFlatVolumes(ProgramBuilder& builder, const Node& node);
/// An image [N,C,H,W] or a volume [N,C,D,H,W] with its channels last in memory. The tensor of a
/// volume is that of the image [N,C,D*H,W], which is the same memory.
Result<Tensor> UseChannelsLast(ProgramBuilder& builder, ValueId value);
/// Declares that `tensor`, with the channels last in memory, holds `value`.
void DefineChannelsLast(ProgramBuilder& builder, ValueId value, Tensor tensor);

/// lower_empty.cc: lowers a node some of whose values may have no elements. Calls `otherwise` if
/// its inputs all have elements and so has an output; empty parts of a Concat or Split are left out
/// of the node that `otherwise` gets.
Status LowerEmpty(ProgramBuilder& builder, Node node, LowerFunction otherwise);

/// lower_select.cc: Compress with a computed condition.
Status LowerComputedCompress(ProgramBuilder& builder, const Node& node);

/// lower_opaque.cc: a node that an engine computes (Node::opaque).
Status LowerOpaque(ProgramBuilder& builder, const Node& node);

/// Lowers a node with floats that are not all fp32: converts its inputs and outputs.
Status LowerConverted(ProgramBuilder& builder, const Node& node, LowerFunction lower);

/// A rank-4 value as an image.
struct ImageShape {
  std::uint32_t batch = 1, channels = 1, height = 1, width = 1;
};
Result<ImageShape> ImageOf(const Dims& dims);

/// A convolution or pooling node over images or lines: its window, and the channels of its input
/// and output.
struct ImageNode {
  ImageWindow window;
  std::uint32_t in_channels = 1, out_channels = 1;
  std::uint32_t pad_bottom = 0, pad_right = 0;
};
Result<ImageNode> ImageNodeOf(const ProgramBuilder& builder, const Node& node);

/// A node with one spatial axis, [N,C,L], as one on images of one row, [N,C,1,L]: its dims, and its
/// attributes.
Dims Widened(const Dims& dims);
Node WithImageWindow(const Node& node);

/// Fails if the node has a fused residual or activation, which its lowering would drop.
Status CheckNotFused(const Node& node);
/// The activation (not the residual) that fusion added to a node.
Epilogue EpilogueOf(const Fused& fused);
/// lower_elementwise.cc: sets the epilogue of a kernel to a function of one input.
void SetFunction(const Fused& fused, Epilogue& epilogue);

}  // namespace lagoon
