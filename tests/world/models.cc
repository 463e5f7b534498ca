#include "world/models.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <span>
#include <utility>

#include "base/check.h"
#include "serving/testing/model_files.h"

namespace lagoon::world {
namespace {

using testing::OnnxBuilder;

// ---- The memory of clients. A buffer that a request has released is another client's next.

void Spoil(std::span<std::int64_t> words, std::uint64_t seed) {
  Dice dice(seed);
  for (std::int64_t& word : words) word = dice.Below(8);
}

/// A buffer that goes to another client when it is released, so that its contents change.
std::shared_ptr<std::vector<std::int64_t>> Borrow(std::size_t bytes, std::uint64_t seed) {
  const std::size_t words = (bytes + sizeof(std::int64_t) - 1) / sizeof(std::int64_t);
  auto* const buffer = new std::vector<std::int64_t>(words);
  return {buffer, [seed](std::vector<std::int64_t>* released) {
            Spoil(*released, seed);
            delete released;
          }};
}

/// Collects the inputs of a request in one buffer.
class Writer {
 public:
  void Add(const std::string& name, DataType type, Dims dims, std::span<const std::byte> bytes) {
    inputs_.push_back({name, type, std::move(dims), bytes_.size(), bytes.size()});
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    bytes_.resize((bytes_.size() + 7) / 8 * 8);
  }
  void WriteTo(InferRequest& request, std::uint64_t seed) const {
    const auto buffer = Borrow(std::max<std::size_t>(bytes_.size(), 1), seed);
    auto* const data = reinterpret_cast<std::byte*>(buffer->data());
    std::ranges::copy(bytes_, data);
    for (const Input& input : inputs_) {
      request.inputs.push_back(
          {input.name, input.type, input.dims, {data + input.at, input.bytes}});
    }
    request.payload = buffer;
  }

 private:
  struct Input {
    std::string name;
    DataType type;
    Dims dims;
    std::size_t at, bytes;
  };
  std::vector<Input> inputs_;
  std::vector<std::byte> bytes_;
};

std::vector<float> Numbers(Dice& dice, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(dice.Between(-50, 50));
  return values;
}

std::vector<float> Plus(std::vector<float> values, float constant) {
  for (float& value : values) value += constant;
  return values;
}

std::int64_t Product(const Dims& dims) {
  std::int64_t product = 1;
  for (const std::int64_t dim : dims) product *= dim;
  return product;
}

// ---- Models

std::string Parameter(const std::string& key, const std::string& value) {
  return "parameters { key: \"" + key + "\" value { string_value: \"" + value + "\" } }\n";
}

/// Opens the dims of all inputs and outputs of this rank that are named.
void Open(onnx::ModelProto& model, const std::vector<std::string>& names) {
  onnx::GraphProto& graph = *model.mutable_graph();
  for (auto* values : {graph.mutable_input(), graph.mutable_output()}) {
    for (onnx::ValueInfoProto& value : *values) {
      auto& shape = *value.mutable_type()->mutable_tensor_type()->mutable_shape();
      for (int axis = 0; axis < shape.dim_size(); ++axis) {
        const auto name = static_cast<std::size_t>(axis);
        if (name < names.size() && !names[name].empty()) {
          shape.mutable_dim(axis)->set_dim_param(names[name]);
        }
      }
    }
  }
}

/// y = x + constant.
OnnxBuilder Sum(const Dims& dims, float constant) {
  OnnxBuilder builder;
  builder.Input("x", dims).Constant("c", {1}, {constant}).Node("Add", {"x", "c"}, "y");
  return builder.Output("y", dims);
}

onnx::ModelProto OpenSum(const Dims& dims, float constant, const std::vector<std::string>& names) {
  onnx::ModelProto model = Sum(dims, constant).Build();
  Open(model, names);
  return model;
}

/// y = the first "count" elements of x, plus constant. What "count" contains decides the shapes.
onnx::ModelProto Some(float constant) {
  onnx::ModelProto model = OnnxBuilder()
                               .Input("x", {8})
                               .Input("count", {1})
                               .Constant("c", {1}, {constant})
                               .Node("Slice", {"x", "zero", "count"}, "s")
                               .Node("Add", {"s", "c"}, "y")
                               .Build();
  auto& graph = *model.mutable_graph();
  graph.mutable_input(1)->mutable_type()->mutable_tensor_type()->set_elem_type(
      onnx::TensorProto::INT64);
  onnx::TensorProto& zero = *graph.add_initializer();
  zero.set_name("zero");
  zero.set_data_type(onnx::TensorProto::INT64);
  zero.add_dims(1);
  zero.add_int64_data(0);
  graph.add_output()->set_name("y");
  return model;
}

/// y = the elements of x that are not 0, plus constant: two parts.
onnx::ModelProto Picks(float constant) {
  onnx::ModelProto model = OnnxBuilder()
                               .Input("x", {8})
                               .Constant("c", {1}, {constant})
                               .Node("NonZero", {"x"}, "where")
                               .Node("Transpose", {"where"}, "at")
                               .Node("GatherND", {"x", "at"}, "elements")
                               .Node("Add", {"elements", "c"}, "y")
                               .Build();
  auto& graph = *model.mutable_graph();
  onnx::AttributeProto& perm = *graph.mutable_node(1)->add_attribute();
  perm.set_name("perm");
  perm.set_type(onnx::AttributeProto::INTS);
  perm.add_ints(1);
  perm.add_ints(0);
  graph.add_output()->set_name("y");
  return model;
}

/// y = Wait(x) + constant, where an engine runs Wait.
onnx::ModelProto Waits(float constant) {
  onnx::ModelProto model = OnnxBuilder()
                               .Input("x", {4})
                               .Constant("c", {1}, {constant})
                               .Node("Wait", {"x"}, "w")
                               .Node("Add", {"w", "c"}, "y")
                               .Output("y", {4})
                               .Build();
  model.mutable_graph()->mutable_node(0)->set_domain("test");
  onnx::OperatorSetIdProto& opset = *model.add_opset_import();
  opset.set_domain("test");
  opset.set_version(1);
  return model;
}

/// y = x + constant, for one row only; others do not compile, although the batch dim is open.
onnx::ModelProto OneRow(float constant) {
  onnx::ModelProto model = OnnxBuilder()
                               .Input("x", {1, 4})
                               .Constant("c", {1}, {constant})
                               .Node("Reshape", {"x", "shape"}, "r")
                               .Node("Add", {"r", "c"}, "y")
                               .Output("y", {1, 4})
                               .Build();
  auto& graph = *model.mutable_graph();
  onnx::TensorProto& shape = *graph.add_initializer();
  shape.set_name("shape");
  shape.set_data_type(onnx::TensorProto::INT64);
  shape.add_dims(2);
  shape.add_int64_data(1);
  shape.add_int64_data(4);
  Open(model, {"rows"});
  return model;
}

/// What models have in common, drawn.
std::string AnyConfig(Dice& dice, bool may_fix_share) {
  std::string text;
  if (dice.OneIn(3)) text += "optimization { priority: PRIORITY_MAX }\n";
  text += "instance_group { count: " + std::to_string(dice.Between(1, 3)) + " }\n";
  if (dice.OneIn(3)) text += Parameter("lagoon.max_plans", std::to_string(dice.Between(2, 4)));
  text += Parameter("lagoon.max_queue_size", std::to_string(kMostWaiting));
  switch (dice.Below(4)) {
    case 0:
      text += Parameter("lagoon.share", "auto");
      break;
    case 1:
      if (may_fix_share) text += Parameter("lagoon.share", "10");
      break;
    default:
      break;
  }
  return text;
}

std::string Batching(Dice& dice, int most) {
  std::string text = "max_batch_size: " + std::to_string(most) + "\ndynamic_batching { ";
  if (dice.OneIn(2)) {
    text += "max_queue_delay_microseconds: " + std::to_string(dice.Between(1, 3000)) + " ";
  }
  return text + "}\n";
}

std::string ConfigOf(const std::string& model, const Config& config) {
  Dice dice(config.number);
  if (model == "program") {
    return "backend: \"lagoon_job\"\n"
           "input { name: \"x\" data_type: TYPE_FP32 dims: [ 4 ] }\n"
           "input { name: \"steps\" data_type: TYPE_INT64 dims: [ 1 ] }\n"
           "output { name: \"y\" data_type: TYPE_FP32 dims: [ 4 ] }\n"
           "instance_group { count: " +
           std::to_string(dice.Between(1, 3)) + " }\n" +
           Parameter("lagoon.max_queue_size", std::to_string(kMostWaiting));
  }
  // One kernel at a time that cannot be interrupted, and none of a second class.
  if (model == "wait") return Parameter("lagoon.max_queue_size", std::to_string(kMostWaiting));
  std::string text = AnyConfig(dice, config.may_fix_share);
  if (model == "batch") text = Batching(dice, 4) + text;
  if (model == "one") {
    text = Batching(dice, 4) + text + Parameter("lagoon.shapes", "x=1x4");
  }
  if (model == "bucket") {
    text += Parameter("lagoon.buckets.steps", dice.OneIn(2) ? "4,8" : "8");
  }
  if (model == "newest") text += Parameter("lagoon.overflow", "newest_wins");
  return text;
}

onnx::ModelProto GraphOf(const std::string& model, float constant) {
  if (model == "any") return OpenSum({1, 1}, constant, {"n", "m"});
  if (model == "batch") return OpenSum({1, 4}, constant, {"rows"});
  if (model == "one") return OneRow(constant);
  if (model == "some") return Some(constant);
  if (model == "parts") return Picks(constant);
  if (model == "bucket") return OpenSum({1, 1, 4}, constant, {"", "steps"});
  if (model == "wait") return Waits(constant);
  return Sum({1, 4}, constant).Build();  // fixed, newest
}

/// Replaces the file at once: the server may be reading it.
void Write(const std::filesystem::path& file, const std::string& contents) {
  const std::filesystem::path part = file.string() + ".part";
  std::ofstream(part, std::ios::binary) << contents;
  std::filesystem::rename(part, file);
}

std::string Contents(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// ---- Requests

Dims DimsOf(const std::string& model, Dice& dice) {
  if (model == "any") return {dice.Below(5), dice.Below(5)};
  if (model == "batch" || model == "one") return {dice.Between(1, model == "one" ? 1 : 3), 4};
  if (model == "bucket") return {1, dice.Between(1, 8), 4};
  if (model == "some" || model == "parts") return {8};
  if (model == "wait" || model == "program") return {4};
  return {1, 4};
}

/// Makes something wrong with a request. Says what.
std::string Spoil(InferRequest& request, Dice& dice) {
  InputTensor& x = request.inputs[0];
  switch (dice.Below(6)) {
    case 0:
      x.name = "z";
      return "an input has an unknown name";
    case 1:
      x.dims.push_back(2);
      return "an input has a dim too many";
    case 2:
      x.dims.back() = -x.dims.back() - 1;
      return "a dim is negative";
    case 3:
      x.type = DataType::kInt32;
      return "an input has a wrong type";
    case 4:
      request.outputs = {"nothing"};
      return "an unknown output is wanted";
    default:
      request.inputs.clear();
      return "inputs are missing";
  }
}

}  // namespace

std::uint64_t Dice::Draw() {
  std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

const std::vector<std::string>& ModelNames() {
  static const std::vector<std::string> names = {"any",    "batch", "one",   "some",   "parts",
                                                 "bucket", "wait",  "fixed", "newest", "program"};
  return names;
}

Traits TraitsOf(const std::string& model) {
  return {.batches = model == "batch" || model == "one",
          .opaque = model == "wait",
          .program = model == "program"};
}

void WriteModel(const std::string& folder, const std::string& model, float constant,
                const Config& config) {
  const std::filesystem::path root = std::filesystem::path(folder) / model;
  std::filesystem::create_directories(root / "1");
  if (TraitsOf(model).program) {
    Write(root / "1" / "job.so", Contents(LAGOON_WORLD_PROGRAM));
  } else {
    Write(root / "1" / "model.onnx", GraphOf(model, constant).SerializeAsString());
  }
  Write(root / "config.pbtxt", ConfigOf(model, config));
}

Ask MakeAsk(const std::string& model, std::uint64_t number) {
  Dice dice(number);
  Ask ask;
  ask.request.model = model;
  const bool wrong = dice.OneIn(12);
  const Dims dims = DimsOf(model, dice);
  std::vector<float> x = Numbers(dice, Product(dims));
  Writer writer;
  std::int64_t deciding = 0;
  if (model == "parts") {
    for (float& value : x) value = dice.OneIn(2) ? 0 : value;
  }
  writer.Add("x", DataType::kFloat32, dims, std::as_bytes(std::span(x)));
  if (model == "some" || model == "program") {
    deciding = model == "some" ? dice.Between(-2, 8) : dice.Between(0, 5);
    writer.Add(model == "some" ? "count" : "steps", DataType::kInt64, {1},
               std::as_bytes(std::span(&deciding, 1)));
  }
  writer.WriteTo(ask.request, number);
  if (wrong) ask.wrong = Spoil(ask.request, dice);
  ask.right = [model, dims, x, deciding](float constant) -> std::vector<Output> {
    std::vector<float> y = x;
    Dims shape = dims;
    if (model == "some") {
      const std::int64_t count = std::min<std::int64_t>(deciding < 0 ? 8 + deciding : deciding, 8);
      y.resize(static_cast<std::size_t>(count));
      shape = {count};
    } else if (model == "parts") {
      std::erase(y, 0.0F);
      shape = {static_cast<std::int64_t>(y.size())};
    } else if (model == "program") {
      for (float& value : y) value *= static_cast<float>(1 << deciding);
      return {{"y", shape, y}};
    }
    return {{"y", shape, Plus(std::move(y), constant)}};
  };
  return ask;
}

}  // namespace lagoon::world
