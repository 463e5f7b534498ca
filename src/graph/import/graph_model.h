#pragma once

// A model as a graph whose inputs have no sizes yet.

#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "graph/budget.h"
#include "graph/onnx_model.h"
#include "graph/opaque/opaque.h"

namespace lagoon {

struct LaterNodes;  // graph/control/walk.h

/// Infers shapes for copies of its graph. The base of a model that was read from a file, and the
/// whole of a later part.
class GraphModel : public OnnxModel {
 public:
  const std::vector<DeclaredTensor>& inputs() const override { return inputs_; }
  const std::vector<DeclaredTensor>& outputs() const override { return outputs_; }
  Result<ModelPart> Import(const GraphInputs& given,
                           std::vector<std::size_t>* deciding) const override;
  void ReleaseWeights() const override;
  Identity WeightsIdentity() const override;
  std::size_t bytes() const override;
  bool HasUnknownOps() const override;

 protected:
  GraphModel(const ImportOptions& options, const std::string& path)
      : OnnxModel(options, path), budget_(options.max_bytes) {}

  /// Gives an input these contents. kInvalidArgument: they do not fit it.
  static Status FixInput(Value& value, const Constant& constant);

  Graph graph_;
  std::vector<DeclaredTensor> inputs_, outputs_;
  ByteBudget budget_;
  /// By output of the graph: its number among the outputs of the file.
  std::vector<std::size_t> output_numbers_;
  std::size_t parts_before_ = 0;
  std::size_t unrolled_before_ = 0;  // nodes that bodies became in these parts

 private:
  /// `assumed`: gets whether the shape of an opaque node is assumed.
  Result<ModelPart> ImportGraph(const GraphInputs& given, std::vector<std::size_t>* deciding,
                                Assume assume, bool& assumed) const;
  Status SetInputs(Graph& graph, const GraphInputs& given, ByteBudget& budget) const;
  std::vector<std::size_t> DecidingInputs(const Graph& graph, const Node& reader,
                                          ValueId value) const;
  Status CheckOps(std::span<const Node> nodes, Graph& graph) const;
  Error Explained(const GraphInputs& given, Error error) const;
  /// Takes the nodes of `later`.
  NextPart MakeNextPart(ModelPart& part, LaterNodes& later) const;
};

}  // namespace lagoon
