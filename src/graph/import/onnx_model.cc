#include "graph/onnx_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>

#include "base/guard.h"
#include "base/text.h"
#include "graph/ops/infer.h"

namespace lagoon {
namespace {

/// "input 'x' [-1,3,-1,-1]", with the names of open dims.
std::string Shown(const DeclaredTensor& tensor) {
  if (!tensor.shape_known) return "any shape";
  std::string dims;
  for (std::size_t i = 0; i < tensor.dims.size(); ++i) {
    const bool named = tensor.dims[i] == -1 && !tensor.symbols[i].empty();
    dims +=
        (i == 0 ? "" : ",") + (named ? Quoted(tensor.symbols[i]) : std::to_string(tensor.dims[i]));
  }
  return fmt::format("[{}]", dims);
}

/// Whether an open axis of an input may be the steps of a cache of keys and values: of
/// [batch, heads, steps, size], or called so.
bool IsPast(const DeclaredTensor& input, std::size_t axis) {
  if (input.symbols[axis].starts_with("past")) return true;
  return input.dims.size() == 4 && axis == 2 && input.dims[1] != -1 && input.dims[3] != -1;
}

struct GuessedSizes {
  std::int64_t image, steps;
  std::int64_t past = -1;  // -1: no special size

  std::int64_t For(const DeclaredTensor& input, std::size_t axis) const {
    if (past >= 0 && IsPast(input, axis)) return past;
    const bool whole_image = input.dims.size() == 3 && input.dims[0] == 3;  // without a batch
    return input.dims.size() == 4 || whole_image ? image : steps;
  }
};

/// The sum that `text` spells with the names of `sizes` and with numbers. Nothing if a term is
/// neither.
std::optional<std::int64_t> SumOf(std::string_view text,
                                  const std::map<std::string, std::int64_t>& sizes) {
  std::int64_t sum = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('+'), text.size());
    std::string term(text.substr(0, end));
    std::erase(term, ' ');
    text.remove_prefix(std::min(end + 1, text.size()));
    std::int32_t number = 0;
    const auto read = std::from_chars(term.data(), term.data() + term.size(), number);
    const bool whole = read.ec == std::errc() && read.ptr == term.data() + term.size();
    const auto known = sizes.find(term);
    if (!whole && known == sizes.end()) return std::nullopt;
    sum += whole ? number : known->second;
  }
  return sum;
}

}  // namespace

bool DeclaredTensor::open() const {
  return !shape_known || std::ranges::find(dims, -1) != dims.end();
}

bool OnnxModel::open() const { return std::ranges::any_of(inputs(), &DeclaredTensor::open); }

GraphInputs OnnxModel::DefaultInputs() const {
  GraphInputs defaults;
  for (const DeclaredTensor& input : inputs()) {
    Dims& dims = defaults.dims.emplace_back(input.dims);
    std::ranges::replace(dims, -1, 1);
  }
  return defaults;
}

Result<GraphInputs> OnnxModel::BatchInputs(std::int64_t batch) const {
  GraphInputs rows = DefaultInputs();
  for (std::size_t i = 0; i < inputs().size(); ++i) {
    const DeclaredTensor& input = inputs()[i];
    const bool open = !input.dims.empty() && input.dims[0] == -1;
    if (open) rows.dims[i][0] = batch;
    if (open) SetSymbol(input.symbols[0], batch, rows);
    if (!rows.dims[i].empty() && rows.dims[i][0] == batch) continue;
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("input {} has shape {}, whose first dimension is fixed: the model "
                            "cannot take a batch of {}",
                            Quoted(input.name), Shown(input), batch));
  }
  return rows;
}

Result<GraphInputs> OnnxModel::WithShapes(GraphInputs given,
                                          const std::map<std::string, Dims>& shapes) const {
  for (const auto& [name, dims] : shapes) {
    const auto input = std::ranges::find(inputs(), name, &DeclaredTensor::name);
    if (input == inputs().end()) {
      std::string names;
      for (const DeclaredTensor& known : inputs()) {
        names += (names.empty() ? "" : ", ") + Quoted(known.name) + " " + Shown(known);
      }
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("there is no input {}; the model takes {}", Quoted(name), names));
    }
    given.dims[static_cast<std::size_t>(input - inputs().begin())] = dims;
  }
  LAGOON_RETURN_IF_ERROR(Check(given));
  return given;
}

void OnnxModel::SetSymbol(const std::string& symbol, std::int64_t size, GraphInputs& to) const {
  if (symbol.empty()) return;
  for (std::size_t i = 0; i < inputs().size(); ++i) {
    for (std::size_t axis = 0; axis < inputs()[i].symbols.size(); ++axis) {
      if (inputs()[i].symbols[axis] == symbol) to.dims[i][axis] = size;
    }
  }
}

/// Sets dims that the file names as a sum: "past_sequence_length + sequence_length".
void OnnxModel::SetSums(GraphInputs& guess) const {
  std::map<std::string, std::int64_t> sizes;
  std::vector<std::string> sums;
  for (std::size_t i = 0; i < inputs().size(); ++i) {
    for (std::size_t axis = 0; axis < inputs()[i].symbols.size(); ++axis) {
      const std::string& symbol = inputs()[i].symbols[axis];
      if (symbol.find('+') != std::string::npos) sums.push_back(symbol);
      sizes[symbol] = guess.dims[i][axis];
    }
  }
  for (const std::string& sum : sums) {
    if (const auto size = SumOf(sum, sizes)) SetSymbol(sum, *size, guess);
  }
}

std::vector<GraphInputs> OnnxModel::Guesses() const {
  constexpr GuessedSizes kSizes[] = {{224, 16, 0}, {224, 16}, {1, 1}, {640, 512}};
  std::vector<GraphInputs> guesses;
  for (const GuessedSizes& sizes : kSizes) {
    GraphInputs guess = DefaultInputs();
    bool caches = false;
    // The last input with a name decides its size, so batches, on axis 0, come last.
    for (const bool batches : {false, true}) {
      for (std::size_t i = 0; i < inputs().size(); ++i) {
        const DeclaredTensor& input = inputs()[i];
        for (std::size_t axis = 0; axis < input.dims.size(); ++axis) {
          const bool is_batch = axis == 0 && input.dims.size() > 1;
          if (input.dims[axis] != -1 || is_batch != batches) continue;
          caches = caches || IsPast(input, axis);
          guess.dims[i][axis] = is_batch ? 1 : sizes.For(input, axis);
          SetSymbol(input.symbols[axis], guess.dims[i][axis], guess);
        }
      }
    }
    SetSums(guess);
    if (sizes.past >= 0 && !caches) continue;
    guesses.push_back(std::move(guess));
    if (!open()) break;
  }
  return guesses;
}

Status OnnxModel::Check(const GraphInputs& given) const {
  if (given.dims.size() != inputs().size()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} shapes for {} inputs", given.dims.size(), inputs().size()));
  }
  for (std::size_t i = 0; i < inputs().size(); ++i) {
    const DeclaredTensor& input = inputs()[i];
    const Dims& dims = given.dims[i];
    if (!input.shape_known) continue;
    bool same = dims.size() == input.dims.size();
    for (std::size_t axis = 0; same && axis < dims.size(); ++axis) {
      same = dims[axis] >= 0 && (input.dims[axis] == -1 || input.dims[axis] == dims[axis]);
    }
    if (same) continue;
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("input {} has shape {}, the model takes {}", Quoted(input.name),
                            ToString(dims), Shown(input)));
  }
  return {};
}

Result<ModelPart> OnnxModel::ImportWhole(const GraphInputs& /*inputs*/, const Error& why) const {
  return tl::unexpected(why);
}

Result<ModelPart> OnnxModel::Instantiate(const GraphInputs& inputs,
                                         std::vector<std::size_t>* deciding) const {
  LAGOON_ASSIGN_OR_RETURN(ModelPart part, Import(inputs, deciding));
  const auto finish = [&]() -> Result<ModelPart> {
    LAGOON_RETURN_IF_ERROR(FoldConstants(part.graph, options_));
    LAGOON_RETURN_IF_ERROR(FuseOps(part.graph, options_));
    return std::move(part);
  };
  Result<ModelPart> finished = finish();
  if (!finished) return Annotate(path_, std::move(finished).error());
  return finished;
}

namespace {

/// The graph of a model that has one part.
Result<Graph> WholeGraph(const std::string& path, Result<ModelPart> part) {
  if (!part) return tl::unexpected(std::move(part).error());
  if (part->links.next) return Annotate(path, part->links.next->why);
  for (const ValueId output : part->graph.outputs) {
    const Status actual = CheckDimsAreActual(part->graph, output, "an output of the graph");
    if (!actual) return Annotate(path, actual.error());
  }
  return std::move(part->graph);
}

}  // namespace

Result<Graph> ImportOnnx(const std::string& path, const ImportOptions& options) {
  LAGOON_ASSIGN_OR_RETURN(const auto model, OnnxModel::Read(path, options));
  return WholeGraph(path, model->Import(model->DefaultInputs()));
}

Result<Graph> LoadGraph(const std::string& path, const ImportOptions& options) {
  LAGOON_ASSIGN_OR_RETURN(const auto model, OnnxModel::Read(path, options));
  return WholeGraph(path, model->Instantiate(model->DefaultInputs()));
}

}  // namespace lagoon
