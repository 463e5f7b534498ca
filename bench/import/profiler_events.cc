#include <fmt/format.h>

#include <array>

#include "base/json.h"
#include "base/json_fields.h"
#include "base/text.h"
#include "bench/import/traced_kernels.h"

namespace lagoon {
namespace {

using Json = nlohmann::json;

tl::unexpected<Error> Wrong(const std::string& where, std::string_view field, const Json& value,
                            std::string_view takes) {
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("{}: '{}' is {}, it must be {}", where, field, ShownJson(value), takes));
}

Result<double> NumberOf(const Json& object, const std::string& where, const char* field) {
  const auto found = object.find(field);
  if (found == object.end()) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{} has no '{}'", where, field));
  }
  if (!found->is_number()) return Wrong(where, field, *found, "a number");
  return found->get<double>();
}

// The product of three numbers: [x, y, z].
Result<double> ProductOf(const Json& object, const std::string& where, const char* field) {
  const auto found = object.find(field);
  if (found == object.end()) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{} has no '{}': was it recorded with CUDA's activities?", where, field));
  }
  if (!found->is_array() || found->size() != 3) {
    return Wrong(where, field, *found, "a list of three numbers");
  }
  double product = 1;
  for (const Json& one : *found) {
    if (!one.is_number() || !(one.get<double>() >= 1)) {
      return Wrong(where, field, *found, "a list of three numbers from 1 on");
    }
    product *= one.get<double>();
  }
  return product;
}

bool IsKernel(const Json& event) {
  if (!event.is_object()) return false;
  const auto category = event.find("cat");
  return category != event.end() && (*category == "kernel" || *category == "Kernel") &&
         event.value("ph", Json()) == "X";
}

Result<TracedKernel> KernelOf(const Json& event, std::size_t number) {
  TracedKernel kernel;
  const Json name = event.value("name", Json());
  kernel.where =
      fmt::format("event {} ({})", number,
                  name.is_string() ? Quoted(name.get_ref<const std::string&>()) : "no name");
  LAGOON_ASSIGN_OR_RETURN(const double start_us, NumberOf(event, kernel.where, "ts"));
  LAGOON_ASSIGN_OR_RETURN(const double time_us, NumberOf(event, kernel.where, "dur"));
  kernel.start_ns = start_us * 1e3;
  kernel.time_ns = time_us * 1e3;
  const auto args = event.find("args");
  if (args == event.end() || !args->is_object()) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{} has no 'args'", kernel.where));
  }
  LAGOON_ASSIGN_OR_RETURN(kernel.blocks, ProductOf(*args, kernel.where, "grid"));
  LAGOON_ASSIGN_OR_RETURN(kernel.threads, ProductOf(*args, kernel.where, "block"));
  if (args->contains("registers per thread")) {
    LAGOON_ASSIGN_OR_RETURN(kernel.registers_per_thread,
                            NumberOf(*args, kernel.where, "registers per thread"));
  }
  if (args->contains("shared memory")) {
    LAGOON_ASSIGN_OR_RETURN(kernel.shared_bytes, NumberOf(*args, kernel.where, "shared memory"));
  }
  if (const auto device = args->find("device"); device != args->end()) {
    kernel.device = DumpJson(*device);
  }
  if (const auto restart = args->find("restart"); restart != args->end()) {
    if (!restart->is_string() && !restart->is_number_unsigned()) {
      return Wrong(kernel.where, "restart", *restart, "'claims', 'wait' or a number of kernels");
    }
    kernel.restart = restart->is_string() ? restart->get<std::string>() : DumpJson(*restart);
  }
  return kernel;
}

}  // namespace

Result<std::vector<TracedKernel>> ReadProfilerEvents(std::string_view text) {
  LAGOON_ASSIGN_OR_RETURN(const Json document, ParseJson(text));
  const Json* events = &document;
  if (document.is_object()) {
    const auto found = document.find("traceEvents");
    if (found == document.end()) {
      return Fail(ErrorCode::kInvalidArgument,
                  "has no 'traceEvents': it is no trace of PyTorch's profiler");
    }
    events = &*found;
  }
  if (!events->is_array()) {
    return Fail(ErrorCode::kInvalidArgument, "'traceEvents' is not a list");
  }
  std::vector<TracedKernel> kernels;
  for (std::size_t i = 0; i < events->size(); ++i) {
    if (!IsKernel((*events)[i])) continue;
    LAGOON_ASSIGN_OR_RETURN(kernels.emplace_back(), KernelOf((*events)[i], i));
  }
  return kernels;
}

}  // namespace lagoon
