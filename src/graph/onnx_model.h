#pragma once

// An ONNX file that is read once and becomes a graph for each set of input shapes.

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"

namespace lagoon {

/// An input or output of a model as its file declares it.
struct DeclaredTensor {
  std::string name;
  DataType type = DataType::kFloat32;
  Dims dims;                         // -1: open
  std::vector<std::string> symbols;  // by axis: the name of an open dim; empty if it has none
  /// If false, the file declares no shape, or an input of a later part has a rank that depends on
  /// data: `dims` and `symbols` are empty, and any shape fits.
  bool shape_known = true;

  bool open() const;  // whether a dim, or even the rank, is open
};

/// What decides the graph of a model: the shape of every input, and the contents of inputs on which
/// shapes or branches depend (a sampling rate, a number of steps).
struct GraphInputs {
  std::vector<Dims> dims;                  // by input
  std::map<std::size_t, Constant> values;  // by input
  RequestWork work = {};
  friend bool operator==(const GraphInputs&, const GraphInputs&) = delete;
};

/// Inputs of at most so many integers or bools may decide a graph by their contents. Where shapes
/// depend on other inputs, the model runs in parts.
inline constexpr std::int64_t kMaxDecidingElements = 64;

class OnnxModel;

/// Where an input of a later part comes from.
struct PartSource {
  bool from_input = false;  // of the part before; else from its output
  std::size_t index = 0;    // from_input: in OnnxModel::inputs(); else in Graph::outputs
};

/// What remains of a model behind one part: a model of its own.
struct NextPart {
  std::shared_ptr<const OnnxModel> model;
  std::vector<PartSource> sources;  // by input of `model`
  Error why;                        // the first node that is not in the part before, and why
};

/// What the outputs of a part are.
struct PartLinks {
  /// The first outputs are outputs of the model: by output, its number in the model's file. Behind
  /// them come values that only the next part reads, and values of actual dims.
  std::vector<std::size_t> results;
  /// By output: which output has its actual dims (INT64, one element per dim), the dims of the
  /// output itself being a capacity (Value::sizes). Nothing: the dims are the actual ones.
  std::vector<std::optional<std::size_t>> sizes;
  std::optional<NextPart> next;  // nothing: this is the last part
};

/// The part of a model whose shapes follow from its inputs. Where shapes, or the nodes themselves,
/// depend on data that this part computes, the remaining nodes are the next part. So a model runs
/// part by part, and each is compiled when the actual shapes are known.
struct ModelPart {
  Graph graph;
  PartLinks links;
};

/// Most parts of a model. A loop whose end depends on data is a part for each step.
inline constexpr std::size_t kMaxParts = 1024;

/// Reading may take seconds. Afterwards Instantiate takes milliseconds: it reads no large weights,
/// because these are deferred (ConstantData). Errors name file, node, op and opset. Not
/// thread-safe.
class OnnxModel {
 public:
  /// Reads the file (ImportOptions). Nodes that no output needs are left out and not read.
  static Result<std::unique_ptr<OnnxModel>> Read(const std::string& path,
                                                 const ImportOptions& options = {});
  virtual ~OnnxModel() = default;

  /// Without the inputs that ImportOptions::inputs fixes.
  virtual const std::vector<DeclaredTensor>& inputs() const = 0;
  virtual const std::vector<DeclaredTensor>& outputs() const = 0;
  bool open() const;  // whether a dim of an input is open

  /// Shapes with every open dim 1.
  GraphInputs DefaultInputs() const;
  /// The same for `batch` rows: where the first dim of an input is open, it is `batch`.
  /// kInvalidArgument names an input whose first dim is fixed to another size.
  Result<GraphInputs> BatchInputs(std::int64_t batch) const;
  /// `inputs` with the shapes of some inputs, by name. kInvalidArgument names an unknown input, and
  /// what Check() says.
  Result<GraphInputs> WithShapes(GraphInputs inputs,
                                 const std::map<std::string, Dims>& shapes) const;
  /// Shapes that are likely to be right when nobody has said any: images of 224 pixels, 16 steps of
  /// a sequence (caches of keys and values first without a past), then other sizes. To be tried in
  /// this order.
  std::vector<GraphInputs> Guesses() const;
  /// Checks the shapes of a request. kInvalidArgument names the input and the rule.
  Status Check(const GraphInputs& inputs) const;

  /// The first part for these inputs, with all shapes, not yet folded and fused. Inputs whose
  /// contents are given become constants. If shapes depend on the contents of inputs that are not
  /// given and may decide (kMaxDecidingElements), fails and adds their numbers to `deciding`.
  virtual Result<ModelPart> Import(const GraphInputs& inputs,
                                   std::vector<std::size_t>* deciding = nullptr) const = 0;
  /// The whole model as one node that the engine runs (ImportOptions::engine). Fails with `why`,
  /// for which Lagoon cannot run the model itself, if the engine cannot either.
  virtual Result<ModelPart> ImportWhole(const GraphInputs& inputs, const Error& why) const;
  /// The graph that lowering takes: Import, FoldConstants, FuseOps.
  Result<ModelPart> Instantiate(const GraphInputs& inputs,
                                std::vector<std::size_t>* deciding = nullptr) const;

  /// Memory that the graph takes, without the contents of constants: about right.
  virtual std::size_t bytes() const = 0;

  /// Whether the model has an op that Lagoon does not have, in any part or branch.
  virtual bool HasUnknownOps() const = 0;

  /// Frees the contents of all deferred weights, also those of later parts.
  virtual void ReleaseWeights() const = 0;

  /// Of all deferred weights together: equal for models with equal ones, whatever their nodes are.
  /// Empty: there are none.
  virtual Identity WeightsIdentity() const = 0;
  const ImportOptions& options() const { return options_; }

 private:
  void SetSymbol(const std::string& symbol, std::int64_t size, GraphInputs& to) const;
  void SetSums(GraphInputs& guess) const;

 protected:
  explicit OnnxModel(ImportOptions options, std::string path)
      : options_(std::move(options)), path_(std::move(path)) {}
  const ImportOptions options_;
  const std::string path_;
};

}  // namespace lagoon
