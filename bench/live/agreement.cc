#include "bench/live/agreement.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "plan/element.h"
#include "program/run.h"

namespace lagoon::bench {
namespace {

constexpr double kIds = 100;

using Bytes = std::vector<std::byte>;

double RandomElement(const TensorSpec& spec, std::mt19937& random) {
  if (IsFloat(spec.type)) return std::normal_distribution<double>()(random);
  if (spec.type == DataType::kBool || spec.name.find("mask") != std::string::npos) return 1;
  if (spec.name.find("type") != std::string::npos) return 0;
  return std::floor(std::uniform_real_distribution<double>(0, kIds)(random));
}

Bytes RandomInput(const TensorSpec& spec, std::mt19937& random) {
  Bytes bytes(spec.bytes());
  WithElementType(spec.type, [&]<typename T>(std::type_identity<T>) {
    for (std::size_t i = 0; i < bytes.size() / sizeof(T); ++i) {
      const T element = ConvertElement<T>(RandomElement(spec, random));
      std::memcpy(bytes.data() + i * sizeof(T), &element, sizeof(T));
    }
  });
  return bytes;
}

// The values of the first output.
Result<std::vector<double>> FirstOutput(BoundModel& model, Device& device,
                                        const std::vector<Bytes>& inputs) {
  const Plan& plan = model.instance().plan();
  std::vector<const void*> in;
  for (const Bytes& input : inputs) in.push_back(input.data());
  LAGOON_RETURN_IF_ERROR(RunPlan(model.instance(), device, in, model.outputs(), {}));
  const TensorSpec& spec = plan.outputs.front().spec;
  const auto* const bytes = static_cast<const std::byte*>(model.outputs().front());
  std::vector<double> values(static_cast<std::size_t>(ElementCount(spec.dims)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = ElementAsDouble(spec.type, bytes, i);
  }
  return values;
}

double Cosine(const std::vector<double>& a, const std::vector<double>& b) {
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  return ab / std::sqrt(aa * bb);
}

}  // namespace

Result<Agreement> Compare(BoundModel& a, BoundModel& b, Device& device, int inputs) {
  const Plan& plan = a.instance().plan();
  const Dims& dims = plan.outputs.front().spec.dims;
  const auto row = static_cast<std::ptrdiff_t>(dims.empty() ? 1 : dims.back());
  Agreement agreement{.top1 = 0, .cosine = 1};
  std::size_t rows = 0, same = 0;
  for (int input = 0; input < inputs; ++input) {
    std::mt19937 random(static_cast<std::uint32_t>(input + 1));
    std::vector<Bytes> values;
    for (const PlanTensor& tensor : plan.inputs) values.push_back(RandomInput(tensor.spec, random));
    LAGOON_ASSIGN_OR_RETURN(const std::vector<double> left, FirstOutput(a, device, values));
    LAGOON_ASSIGN_OR_RETURN(const std::vector<double> right, FirstOutput(b, device, values));
    agreement.cosine = std::min(agreement.cosine, Cosine(left, right));
    for (auto l = left.begin(), r = right.begin(); l != left.end(); l += row, r += row, ++rows) {
      same += std::max_element(l, l + row) - l == std::max_element(r, r + row) - r ? 1 : 0;
    }
  }
  agreement.top1 = static_cast<double>(same) / static_cast<double>(std::max<std::size_t>(rows, 1));
  return agreement;
}

}  // namespace lagoon::bench
