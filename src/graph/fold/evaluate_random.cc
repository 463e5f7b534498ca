#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <numbers>

#include "base/digest.h"
#include "graph/fold/evaluate.h"
#include "plan/element.h"

namespace lagoon {
namespace {

/// Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators" (SplitMix64).
class Generator {
 public:
  explicit Generator(std::uint64_t seed) : state_(seed) {}

  /// Uniform in (0, 1).
  double Next() {
    state_ += 0x9e3779b97f4a7c15;
    std::uint64_t bits = state_;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
    bits ^= bits >> 31;
    return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53;
  }

 private:
  std::uint64_t state_;
};

/// Differs from node to node, also for the steps of a loop, which share their seed.
std::uint64_t SeedOf(const Node& node) {
  const auto seed = std::bit_cast<std::uint32_t>(node.Float("seed", 0));
  return Digest(fmt::format("{} {}", seed, node.name));
}

/// Box and Muller 1958. Two numbers of the generator make one result.
double Normal(Generator& generator) {
  const double radius = std::sqrt(-2 * std::log(generator.Next()));
  return radius * std::cos(2 * std::numbers::pi * generator.Next());
}

}  // namespace

Result<ConstantBytes> EvaluateRandom(const OpContext& context, std::size_t output) {
  const Node& node = context.node();
  const Value& value = context.output(output);
  const bool normal = node.op.starts_with("RandomNormal");
  const double first = node.Float(normal ? "mean" : "low", 0);
  const double span = normal ? node.Float("scale", 1) : node.Float("high", 1) - first;
  Generator generator(SeedOf(node));
  return WithElementType(value.type, [&]<typename T>(std::type_identity<T>) {
    const auto count = static_cast<std::size_t>(ElementCount(value.dims));
    auto bytes = std::make_shared<std::vector<std::byte>>(count * sizeof(T));
    for (std::size_t i = 0; i < count; ++i) {
      const double number = first + span * (normal ? Normal(generator) : generator.Next());
      const T element = ConvertElement<T>(number);
      std::memcpy(bytes->data() + i * sizeof(T), &element, sizeof(T));
    }
    return Result<ConstantBytes>(ConstantBytes(std::move(bytes)));
  });
}

}  // namespace lagoon
