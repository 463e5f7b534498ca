#include "graph/import/whole_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "base/text.h"
#include "graph/opaque/opaque.h"

namespace lagoon {
namespace {

/// In place of the names of ops and nodes. No op has this name.
constexpr const char* kWholeModel = "the whole model";

DeclaredTensor DeclaredAs(const TensorSpec& spec) {
  DeclaredTensor tensor;
  tensor.name = spec.name;
  tensor.type = spec.type;
  tensor.dims = spec.dims;
  tensor.symbols.resize(spec.dims.size());
  tensor.shape_known = !spec.dims.empty();
  return tensor;
}

class WholeModel final : public OnnxModel {
 public:
  WholeModel(std::unique_ptr<OnnxModel> inner, const std::string& path,
             const ImportOptions& options)
      : OnnxModel(options, path), inner_(std::move(inner)) {}

  /// For a model that Lagoon could not read.
  Status Describe() {
    LAGOON_ASSIGN_OR_RETURN(const auto model, Load());
    for (const TensorSpec& input : model->Describe().inputs) {
      if (!options_.inputs.contains(input.name)) inputs_.push_back(DeclaredAs(input));
    }
    for (const TensorSpec& output : model->Describe().outputs) {
      outputs_.push_back(DeclaredAs(output));
    }
    return {};
  }

  void set_why(Error why) { why_ = std::move(why); }

  const std::vector<DeclaredTensor>& inputs() const override {
    return inner_ == nullptr ? inputs_ : inner_->inputs();
  }
  const std::vector<DeclaredTensor>& outputs() const override {
    return inner_ == nullptr ? outputs_ : inner_->outputs();
  }

  Result<ModelPart> Import(const GraphInputs& given,
                           std::vector<std::size_t>* deciding) const override {
    if (inner_ == nullptr) return ImportWhole(given, why_);
    const std::size_t decided = deciding == nullptr ? 0 : deciding->size();
    Result<ModelPart> part = inner_->Import(given, deciding);
    if (part || part.error().code != ErrorCode::kUnimplemented) return part;
    if (deciding != nullptr && deciding->size() > decided) return part;
    return ImportWhole(given, part.error());
  }

  Result<ModelPart> ImportWhole(const GraphInputs& given, const Error& why) const override {
    LAGOON_RETURN_IF_ERROR(Check(given));
    Result<Graph> graph = MakeGraph(given, why);
    if (graph) {
      ModelPart part;
      part.links.results.resize(graph->outputs.size());
      std::iota(part.links.results.begin(), part.links.results.end(), std::size_t{0});
      part.links.sizes.resize(graph->outputs.size());
      part.graph = *std::move(graph);
      return part;
    }
    Error both = why;
    both.message += fmt::format("; {} cannot run the model either: {}", options_.engine->name(),
                                graph.error().message);
    return tl::unexpected(std::move(both));
  }

  std::size_t bytes() const override {
    return inner_ == nullptr ? sizeof(WholeModel) : inner_->bytes();
  }

  bool HasUnknownOps() const override { return inner_ == nullptr || inner_->HasUnknownOps(); }

  void ReleaseWeights() const override {
    if (inner_ != nullptr) inner_->ReleaseWeights();
  }

  Identity WeightsIdentity() const override {
    return inner_ == nullptr ? Identity{} : inner_->WeightsIdentity();
  }

 private:
  Result<std::shared_ptr<EngineModel>> Load() const {
    return options_.engine->Load({path_, {}}, path_);
  }

  Result<Graph> MakeGraph(const GraphInputs& given, const Error& why) const {
    LAGOON_ASSIGN_OR_RETURN(const auto model, Load());
    Graph graph;
    graph.opset = kMaxOpset;
    graph.engine = options_.engine;
    auto opaque = std::make_shared<OpaqueGraph>();
    opaque->file = path_;
    opaque->ops = {kWholeModel};
    opaque->why = why.message;
    opaque->engine = options_.engine;
    Node node;
    node.name = "model";
    node.op = kOpaqueOp;
    std::vector<EngineTensor> tensors;
    for (const TensorSpec& input : model->Describe().inputs) {
      Value& value = graph.values.emplace_back();
      value.name = input.name;
      value.type = input.type;
      value.shape_known = true;
      const auto id = static_cast<ValueId>(graph.values.size() - 1);
      const auto declared = std::ranges::find(inputs(), input.name, &DeclaredTensor::name);
      const auto fixed = options_.inputs.find(input.name);
      if (declared != inputs().end()) {
        value.dims = given.dims[static_cast<std::size_t>(declared - inputs().begin())];
        graph.inputs.push_back(id);
      } else if (fixed != options_.inputs.end()) {
        value.dims = fixed->second.dims;
        value.constant = fixed->second;
      } else {
        return Fail(ErrorCode::kUnimplemented,
                    fmt::format("it has another input, {}", Quoted(input.name)));
      }
      tensors.push_back({value.type, value.dims, nullptr});
      node.inputs.push_back(id);
    }
    const bool unsized = options_.engine->IsUnsized(kWholeModel);
    LAGOON_ASSIGN_OR_RETURN(
        const EngineOutputs results,
        OutputsOf(*model, std::move(tensors), unsized ? Assume::kNever : Assume::kAllowed));
    if (results.assumed) opaque->assumed = {kWholeModel};
    for (std::size_t i = 0; i < results.tensors.size(); ++i) {
      Value& value = graph.values.emplace_back();
      value.name = model->Describe().outputs[i].name;
      value.type = results.tensors[i].type;
      value.dims = results.tensors[i].dims;
      value.shape_known = true;
      value.unsized = results.unsized[i];
      node.outputs.push_back(static_cast<ValueId>(graph.values.size() - 1));
    }
    graph.outputs = node.outputs;
    node.opaque = std::move(opaque);
    graph.nodes.push_back(std::move(node));
    return graph;
  }

  const std::unique_ptr<OnnxModel> inner_;  // null: Lagoon cannot read the file
  Error why_{};
  std::vector<DeclaredTensor> inputs_, outputs_;  // without `inner_`
};

}  // namespace

Result<std::unique_ptr<OnnxModel>> WithWholeModel(std::unique_ptr<OnnxModel> inner,
                                                  const std::string& path,
                                                  const ImportOptions& options, Error why) {
  const bool readable = inner != nullptr;
  auto model = std::make_unique<WholeModel>(std::move(inner), path, options);
  if (!readable) {
    if (const Status described = model->Describe(); !described) {
      why.message += fmt::format("; {} cannot run the model either: {}", options.engine->name(),
                                 described.error().message);
      return tl::unexpected(std::move(why));
    }
    model->set_why(std::move(why));
  }
  return model;
}

}  // namespace lagoon
