#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <random>

#include "base/log.h"
#include "base/text.h"
#include "local/plans/parts_alone.h"
#include "plan/element.h"
#include "plan/strings.h"
#include "program/compile.h"
#include "program/run.h"
#include "serving/model/buckets.h"

namespace lagoon {
namespace {

/// Largest difference by padding, relative to the largest value of an output: sums in another
/// order.
constexpr double kTolerance = 1e-3;

using Bytes = std::vector<std::byte>;

/// `strings`: gets the owners of strings in the outputs.
Result<std::vector<OutputTensor>> Run(const PlanDraft& made, const std::vector<Bytes>& inputs,
                                      Device& device,
                                      std::vector<std::shared_ptr<const MadeTensor>>& strings) {
  LAGOON_ASSIGN_OR_RETURN(const auto instance, Instance::Create(made.loaded, device));
  const Plan& plan = made.loaded->plan;
  std::vector<OutputTensor> outputs;
  RunOptions options;
  options.made = &strings;
  std::vector<const void*> in;
  std::vector<void*> out;
  for (const std::size_t input : made.inputs) in.push_back(inputs[input].data());
  for (const PlanTensor& output : plan.outputs) {
    const TensorSpec& spec = output.spec;
    outputs.push_back({spec.name, spec.type, spec.dims, UnfilledBytes(spec.bytes())});
    out.push_back(outputs.back().data.data());
  }
  LAGOON_RETURN_IF_ERROR(RunPlan(*instance, device, in, out, options));
  return outputs;
}

/// The largest difference of two outputs of equal shape, relative to the largest value.
double Difference(const OutputTensor& a, const OutputTensor& b) {
  double largest = 0, difference = 0;
  for (std::size_t i = 0; i < a.data.size() / SizeOf(a.type); ++i) {
    if (a.type == DataType::kString) {
      const bool same = StringAt(a.data.data(), i).text() == StringAt(b.data.data(), i).text();
      if (!same) return std::numeric_limits<double>::infinity();
      continue;
    }
    const double x = ElementAsDouble(a.type, a.data.data(), i);
    const double y = ElementAsDouble(b.type, b.data.data(), i);
    if (std::isnan(x) && std::isnan(y)) continue;
    if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
    if (x != y) difference = std::max(difference, std::abs(x - y));
    if (std::isnan(x) != std::isnan(y)) return std::numeric_limits<double>::infinity();
  }
  return difference == 0 ? 0 : difference / std::max(largest, 1e-30);
}

/// A size of a request that is padded to the largest bucket: between it and the next smaller one.
std::int64_t Between(const BucketDim& dim) {
  const std::size_t count = dim.sizes.size();
  const std::int64_t smaller = count > 1 ? dim.sizes[count - 2] : 0;
  return std::max<std::int64_t>((smaller + dim.sizes.back()) / 2, 1);
}

/// A plan for a request that padding changes. A model may take the sizes of the buckets only.
Result<std::unique_ptr<PlanDraft>> PlanOfRequest(const Buckets& buckets, ModelPlans& plans,
                                                 const std::vector<Dims>& shapes) {
  auto plan = plans.CompileAtLoad(buckets.With(shapes, Between));
  if (plan) return plan;
  return plans.CompileAtLoad(
      buckets.With(shapes, [](const BucketDim& dim) { return dim.sizes.front(); }));
}

}  // namespace

Status CheckPadding(const Buckets& buckets, ModelPlans& plans, const std::vector<Dims>& shapes,
                    Device& device) {
  LAGOON_ASSIGN_OR_RETURN(const auto small, PlanOfRequest(buckets, plans, shapes));
  LAGOON_ASSIGN_OR_RETURN(const auto large,
                          plans.CompileAtLoad(buckets.With(
                              shapes, [](const BucketDim& dim) { return dim.sizes.back(); })));
  std::mt19937 random(1);
  std::vector<Bytes> inputs, padded;
  RequestPadding padding;
  for (std::size_t i = 0; i < small->inputs.size(); ++i) {
    const TensorSpec& own = small->loaded->plan.inputs[i].spec;
    const TensorSpec& spec = large->loaded->plan.inputs[i].spec;
    inputs.push_back(MadeUpInput(own, random));
    CopyCommonPart(own.dims, inputs.back().data(), spec.dims,
                   padded.emplace_back(spec.bytes()).data(), SizeOf(spec.type));
  }
  std::string sizes;
  for (const BucketDim& dim : buckets.dims()) {
    const TensorAxis at = dim.inputs.front();
    padding.sizes.push_back(small->loaded->plan.inputs[at.tensor].spec.dims[at.axis]);
    sizes += fmt::format("{}'{}' from {} to {}", sizes.empty() ? "" : ", ", dim.name,
                         padding.sizes.back(), dim.sizes.back());
  }
  std::vector<std::shared_ptr<const MadeTensor>> strings[2];
  LAGOON_ASSIGN_OR_RETURN(const auto expected, Run(*small, inputs, device, strings[0]));
  LAGOON_ASSIGN_OR_RETURN(auto actual, Run(*large, padded, device, strings[1]));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    buckets.Cut(padding, large->links.results[i], actual[i]);
    const double difference = Difference(expected[i], actual[i]);
    if (difference <= kTolerance) continue;
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("lagoon.buckets: padding {} with zeros changes output {} by {:.1e} of "
                            "its largest value. A model takes padding if a mask hides it. Leave "
                            "lagoon.buckets out: Lagoon compiles a plan for each size",
                            sizes, Quoted(expected[i].name), difference));
  }
  return {};
}

}  // namespace lagoon
