// lagoon.h: models.

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/log.h"
#include "base/text.h"
#include "capi/exit.h"
#include "capi/handles.h"

namespace lagoon::capi {
namespace {

Result<LocalModelOptions> FromC(const lagoon_model_options& from) {
  LocalModelOptions options;
  if (from.name != nullptr) options.name = from.name;
  switch (const int job_class = NumberOf(from.job_class)) {
    case 0:
    case LAGOON_BEST_EFFORT:
      break;
    case LAGOON_REAL_TIME:
      options.job_class = JobClass::kRealTime;
      break;
    default:
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("there is no class {}: it is LAGOON_REAL_TIME or LAGOON_BEST_EFFORT",
                              job_class));
  }
  constexpr std::int64_t kMost = std::int64_t{1} << 53;  // in us: centuries
  if (from.deadline_us < 0 || from.deadline_us > kMost) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("deadline_us is {}: it is from 0 for none to 2^53", from.deadline_us));
  }
  options.deadline = std::chrono::microseconds(from.deadline_us);
  if (from.weight != 0) options.weight = from.weight;
  options.share = from.share;
  if (from.concurrency != 0) options.concurrency = from.concurrency;
  if (from.max_pending != 0) options.max_pending = from.max_pending;
  options.newest_wins = from.newest_wins != 0;
  if (from.precision != nullptr) {
    LAGOON_ASSIGN_OR_RETURN(options.precision, ParsePrecision(from.precision));
  }
  options.profile_runs = from.profile_runs;
  if (from.engine != nullptr) options.engine = from.engine;
  return options;
}

/// What both ways to load have in common. `load`: makes the model for a device and options.
template <typename Load>
lagoon_code LoadModel(lagoon_device* device, const lagoon_model_options* options,
                      lagoon_model** model, lagoon_error* error, Load load) {
  return Call(error, [&]() -> Status {
    if (model == nullptr) return Null("the place for the model");
    *model = nullptr;
    if (device == nullptr) return Null("the device");
    lagoon_model_options given;
    LAGOON_RETURN_IF_ERROR(ReadOptions(options, "lagoon_model_options", given));
    LAGOON_ASSIGN_OR_RETURN(LocalModelOptions loads, FromC(given));
    LAGOON_ASSIGN_OR_RETURN(std::unique_ptr<LocalModel> loaded,
                            load(*device->open->device, std::move(loads)));
    auto open = std::make_shared<KeptModel>(device->open, std::move(loaded));
    device->open->Add(*open);
    CloseBeforeNewStatics();
    *model = new lagoon_model{std::move(open)};
    return {};
  });
}

Status Describe(const std::vector<DeclaredTensor>& tensors, std::size_t index,
                lagoon_tensor_info* info) {
  if (index >= tensors.size()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("there is no tensor {}: there are {}", index, tensors.size()));
  }
  const DeclaredTensor& tensor = tensors[index];
  lagoon_tensor_info made = LAGOON_TENSOR_INFO_INIT;
  made.name = tensor.name.c_str();
  made.type = ToType(tensor.type);
  made.rank = static_cast<std::uint32_t>(tensor.dims.size());
  made.dims = tensor.dims.data();
  made.shape_known = tensor.shape_known ? 1 : 0;
  return WriteResult(made, "lagoon_tensor_info", info);
}

Result<double> ParseNumber(const char* key, const char* value) {
  double number = 0;
  const char* const end = value + std::strlen(value);
  const auto [at, error] = std::from_chars(value, end, number);
  if (error == std::errc() && at == end && std::isfinite(number)) return number;
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("'{}' is {}, which is no number", key, Quoted(value)));
}

Status Set(LocalModel& model, const std::string& key, const char* value) {
  if (key == "class") {
    for (const JobClass job_class : {JobClass::kRealTime, JobClass::kBestEffort}) {
      if (value != lagoon::Name(job_class)) continue;
      model.SetClass(job_class);
      return {};
    }
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("'class' is {}: it is 'real-time' or 'best-effort'", Quoted(value)));
  }
  if (key != "deadline_us" && key != "weight" && key != "share") {
    return Fail(ErrorCode::kNotFound,
                fmt::format("there is no setting {}: there are class, deadline_us, weight and "
                            "share",
                            Quoted(key)));
  }
  LAGOON_ASSIGN_OR_RETURN(const double number, ParseNumber(key.c_str(), value));
  if (key == "weight") return model.SetWeight(number);
  if (key == "share") return model.SetShare(number);
  if (number < 0 || number > 9e15) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("'deadline_us' is {}: it is from 0 for none to 9e15", number));
  }
  model.SetDeadline(std::chrono::microseconds(static_cast<std::int64_t>(number)));
  return {};
}

}  // namespace

Status Closed(const KeptModel& model) {
  if (!model.device->device->usable()) return tl::unexpected<Error>(LocalDevice::ForkedError());
  return Fail(ErrorCode::kUnavailable,
              fmt::format("model '{}' is freed, or its device closed", model.model->name()));
}

}  // namespace lagoon::capi

using namespace lagoon;        // NOLINT: the functions of the border are of no namespace
using namespace lagoon::capi;  // NOLINT: for the same

lagoon_code lagoon_model_load_file(lagoon_device* device, const char* path,
                                   const lagoon_model_options* options, lagoon_model** model,
                                   lagoon_error* error) {
  return LoadModel(device, options, model, error, [&](LocalDevice& on, LocalModelOptions loads) {
    using Loaded = Result<std::unique_ptr<LocalModel>>;
    if (path == nullptr) return Loaded(tl::unexpected(Null("the path").error()));
    return LocalModel::Load(on, path, std::move(loads));
  });
}

lagoon_code lagoon_model_load_bytes(lagoon_device* device, const void* bytes, size_t size,
                                    const char* folder, const lagoon_model_options* options,
                                    lagoon_model** model, lagoon_error* error) {
  return LoadModel(device, options, model, error, [&](LocalDevice& on, LocalModelOptions loads) {
    using Loaded = Result<std::unique_ptr<LocalModel>>;
    if (bytes == nullptr)
      return Loaded(tl::unexpected(Null("the place of the model's bytes").error()));
    ModelBytes from;
    from.bytes = {static_cast<const std::byte*>(bytes), size};
    if (folder != nullptr) from.folder = folder;
    return LocalModel::LoadBytes(on, from, std::move(loads));
  });
}

void lagoon_model_free(lagoon_model* model) {
  if (model == nullptr) return;
  Quietly([&] {
    KeptModel& open = *model->open;
    open.gate.Close();
    if (Run::AnyInDone()) {
      spdlog::error("lagoon_model_free within `done` of a run: the model keeps its memory");
      return;
    }
    if (open.device->device->usable()) {
      if (const std::size_t runs = open.runs(); runs > 0) {
        spdlog::error("lagoon_model_free: {} runs of model '{}' are not freed", runs,
                      open.model->name());
      }
      open.gate.AwaitEmpty(kNoDeadline);
    }
    delete model;
  });
}

size_t lagoon_model_input_count(const lagoon_model* model) {
  return model == nullptr ? 0 : model->open->model->inputs().size();
}

size_t lagoon_model_output_count(const lagoon_model* model) {
  return model == nullptr ? 0 : model->open->model->outputs().size();
}

lagoon_code lagoon_model_input(const lagoon_model* model, size_t index, lagoon_tensor_info* info) {
  return Call(nullptr, [&]() -> Status {
    if (model == nullptr) return Null("the model");
    return Describe(model->open->model->inputs(), index, info);
  });
}

lagoon_code lagoon_model_output(const lagoon_model* model, size_t index, lagoon_tensor_info* info) {
  return Call(nullptr, [&]() -> Status {
    if (model == nullptr) return Null("the model");
    return Describe(model->open->model->outputs(), index, info);
  });
}

lagoon_code lagoon_model_set(lagoon_model* model, const char* key, const char* value,
                             lagoon_error* error) {
  return Call(error, [&]() -> Status {
    if (model == nullptr) return Null("the model");
    if (key == nullptr || value == nullptr) return Null("the key or the value");
    if (model->open->gate.closed()) return Closed(*model->open);
    return Set(*model->open->model, key, value);
  });
}
