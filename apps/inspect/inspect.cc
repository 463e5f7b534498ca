#include "apps/inspect/inspect.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "kernels/cpu_level.h"

namespace lagoon {
namespace {

using nlohmann::json;

const char* Name(Region region) { return region == Region::kWeights ? "weights" : "arena"; }

json ToJson(const ByteRange& range) {
  return {{"region", Name(range.region)}, {"offset", range.offset}, {"bytes", range.bytes}};
}

json ToJson(const std::vector<ByteRange>& ranges) {
  json array = json::array();
  for (const ByteRange& range : ranges) array.push_back(ToJson(range));
  return array;
}

json ToJson(const std::vector<PlanTensor>& tensors) {
  json array = json::array();
  for (const PlanTensor& tensor : tensors) {
    array.push_back({{"name", tensor.spec.name},
                     {"datatype", OipName(tensor.spec.type)},
                     {"shape", tensor.spec.dims},
                     {"range", ToJson(tensor.range)},
                     {"ops", tensor.ops}});
  }
  return array;
}

json ToJson(const PlanOp& op) {
  json kernel = {{"name", op.name},
                 {"kernel", op.kernel_name},
                 {"blocks", op.blocks},
                 {"flops", op.flops},
                 {"kernel_us", ToMicroseconds(op.cost.kernel)},
                 {"block_us", ToMicroseconds(op.cost.block)},
                 {"scratch_bytes", op.scratch_bytes},
                 {"deps", op.deps},
                 {"reads", ToJson(op.reads)},
                 {"writes", ToJson(op.writes)}};
  if (op.opaque != nullptr) {
    kernel["opaque"] = {{"ops", op.opaque->ops()},
                        {"why", op.opaque->why()},
                        {"longest_us", ToMicroseconds(op.opaque->longest())}};
  }
  return kernel;
}

double TotalFlops(const Plan& plan) {
  double flops = 0;
  for (const PlanOp& op : plan.ops) flops += op.flops;
  return flops;
}

std::string Ranges(const std::vector<ByteRange>& ranges) {
  std::string text;
  for (const ByteRange& range : ranges) {
    text += fmt::format("{}{}[{},{})", text.empty() ? "" : " ",
                        range.region == Region::kWeights ? 'w' : 'a', range.offset,
                        range.offset + range.bytes);
  }
  return text;
}

double ToMebibytes(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

std::string Head(const Plan& plan) {
  std::string text = fmt::format("model {}: {} kernels, {:.1f} MFLOP, bodies for {}\n", plan.model,
                                 plan.ops.size(), TotalFlops(plan) / 1e6, NameOf(ActiveCpuLevel()));
  for (const auto* tensors : {&plan.inputs, &plan.outputs}) {
    for (const PlanTensor& tensor : *tensors) {
      text += fmt::format("{} {} {} {} at {}\n", tensors == &plan.inputs ? "input " : "output",
                          tensor.spec.name, OipName(tensor.spec.type), ToString(tensor.spec.dims),
                          Ranges({tensor.range}));
    }
  }
  text += fmt::format("memory: weights {:.2f} MiB, arena {:.2f} MiB ({:.2f} MiB without reuse)\n",
                      ToMebibytes(plan.weight_bytes), ToMebibytes(plan.arena_bytes),
                      ToMebibytes(plan.activation_bytes));
  if (plan.standalone.count() > 0) {
    text += fmt::format("standalone: {:.1f} us\n", ToMicroseconds(plan.standalone));
  } else {
    text += "standalone: not profiled, times are estimates\n";
  }
  return text;
}

}  // namespace

std::string InspectText(const LoadedPlan& loaded) {
  const Plan& plan = loaded.plan;
  std::string text = Head(plan);
  text += fmt::format("\n{:>4} {:<10} {:>6} {:>9} {:>10} {:>9} {:<12} {}\n", "#", "body", "blocks",
                      "MFLOP", "kernel us", "block us", "after", "name");
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    const PlanOp& op = plan.ops[i];
    text += fmt::format("{:>4} {:<10} {:>6} {:>9.2f} {:>10.1f} {:>9.1f} {:<12} {}\n", i,
                        op.kernel_name, op.blocks, op.flops / 1e6, ToMicroseconds(op.cost.kernel),
                        ToMicroseconds(op.cost.block), fmt::format("{}", fmt::join(op.deps, ",")),
                        op.name);
    if (op.opaque != nullptr) {
      text += fmt::format("       engine: {}; cannot be interrupted, longest run {:.1f} us\n",
                          fmt::join(op.opaque->ops(), ", "), ToMicroseconds(op.opaque->longest()));
    }
    text += fmt::format("       reads {}\n       writes {}\n", Ranges(op.reads), Ranges(op.writes));
  }
  text += "\nbuffers\n";
  for (const PlanBuffer& buffer : plan.buffers) {
    text += fmt::format("  {:<28} {}\n", Ranges({buffer.range}), buffer.name);
  }
  return text;
}

std::string InspectJson(const LoadedPlan& loaded) {
  const Plan& plan = loaded.plan;
  json kernels = json::array();
  for (const PlanOp& op : plan.ops) kernels.push_back(ToJson(op));
  json buffers = json::array();
  for (const PlanBuffer& buffer : plan.buffers) {
    buffers.push_back({{"name", buffer.name}, {"range", ToJson(buffer.range)}});
  }
  const json document = {{"model", plan.model},
                         {"target", NameOf(ActiveCpuLevel())},
                         {"flops", TotalFlops(plan)},
                         {"weight_bytes", plan.weight_bytes},
                         {"arena_bytes", plan.arena_bytes},
                         {"activation_bytes", plan.activation_bytes},
                         {"profiled", plan.standalone.count() > 0},
                         {"standalone_us", ToMicroseconds(plan.standalone)},
                         {"inputs", ToJson(plan.inputs)},
                         {"outputs", ToJson(plan.outputs)},
                         {"kernels", std::move(kernels)},
                         {"buffers", std::move(buffers)}};
  return DumpJson(document, 2);
}

}  // namespace lagoon
