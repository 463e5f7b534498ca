#include "engine/onnx_runtime.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "base/library_trial.h"
#include "engine/onnx_runtime_api.h"
#include "plan/strings.h"

namespace lagoon {
namespace {

namespace fs = std::filesystem;

using ort::Api;

/// ONNX's numbers of element types (TensorProto.DataType), which ONNX Runtime has too.
constexpr std::array<std::pair<DataType, int>, 14> kElementTypes = {{
    {DataType::kFloat32, 1},
    {DataType::kUInt8, 2},
    {DataType::kInt8, 3},
    {DataType::kUInt16, 4},
    {DataType::kInt16, 5},
    {DataType::kInt32, 6},
    {DataType::kInt64, 7},
    {DataType::kString, 8},
    {DataType::kBool, 9},
    {DataType::kFloat16, 10},
    {DataType::kFloat64, 11},
    {DataType::kUInt32, 12},
    {DataType::kUInt64, 13},
    {DataType::kBFloat16, 16},
}};

std::optional<DataType> ElementType(int number) {
  for (const auto& [type, of] : kElementTypes) {
    if (of == number) return type;
  }
  return std::nullopt;
}

int NumberOf(DataType type) {
  for (const auto& [of, number] : kElementTypes) {
    if (of == type) return number;
  }
  return ort::kUndefinedElement;
}

/// Owns an object of the API. `Release`: the function that frees such an object.
template <typename T, typename Release>
class Owned {
 public:
  explicit Owned(Api api, T* object = nullptr) : api_(api), object_(object) {}
  Owned(Owned&& other) noexcept
      : api_(other.api_), object_(std::exchange(other.object_, nullptr)) {}
  Owned& operator=(Owned&&) = delete;
  ~Owned() {
    if (object_ != nullptr) api_.Call<Release>(object_);
  }

  T* get() const { return object_; }
  T** out() { return &object_; }

 private:
  Api api_;
  T* object_;
};

using OwnedEnv = Owned<ort::Env, ort::ReleaseEnv>;
using OwnedSession = Owned<ort::Session, ort::ReleaseSession>;
using OwnedValue = Owned<ort::Value, ort::ReleaseValue>;
using OwnedMemoryInfo = Owned<ort::MemoryInfo, ort::ReleaseMemoryInfo>;
using OwnedRunOptions = Owned<ort::RunOptions, ort::ReleaseRunOptions>;

/// Frees `status`.
Status ToStatus(Api api, ort::Status* status, bool stopped = false) {
  if (status == nullptr) return {};
  const int code = api.Call<ort::GetErrorCode>(status);
  std::string message = api.Call<ort::GetErrorMessage>(status);
  api.Call<ort::ReleaseStatus>(status);
  if (stopped) return Fail(ErrorCode::kCancelled, "stopped: " + message);
  const bool lacks = code == ort::kNotImplemented || code == ort::kInvalidGraph;
  return Fail(lacks ? ErrorCode::kUnimplemented : ErrorCode::kInternal, std::move(message));
}

/// Type and dims. `what`: "output 'y'". Open dims are -1.
Status ReadTensorInfo(Api api, const ort::TensorInfo* info, const std::string& what, DataType& type,
                      Dims& dims) {
  int number = 0;
  std::size_t rank = 0;
  LAGOON_RETURN_IF_ERROR(ToStatus(api, api.Call<ort::GetTensorElementType>(info, &number)));
  LAGOON_RETURN_IF_ERROR(ToStatus(api, api.Call<ort::GetDimensionsCount>(info, &rank)));
  const std::optional<DataType> element = ElementType(number);
  if (!element) {
    return Fail(ErrorCode::kUnimplemented,
                fmt::format("{} has ONNX element type {}, which is not supported", what, number));
  }
  type = *element;
  dims.resize(rank);
  return ToStatus(api, api.Call<ort::GetDimensions>(info, dims.data(), rank));
}

Status ReadValueShape(Api api, const ort::Value* value, EngineTensor& tensor) {
  Owned<ort::TensorInfo, ort::ReleaseTensorInfo> info(api);
  LAGOON_RETURN_IF_ERROR(ToStatus(api, api.Call<ort::GetTensorTypeAndShape>(value, info.out())));
  return ReadTensorInfo(api, info.get(), "an output", tensor.type, tensor.dims);
}

/// A new tensor of strings in memory of the engine.
Result<OwnedValue> MakeStrings(Api api, const Dims& dims) {
  void* allocator = nullptr;
  OwnedValue value(api);
  LAGOON_RETURN_IF_ERROR(ToStatus(api, api.Call<ort::GetDefaultAllocator>(&allocator)));
  LAGOON_RETURN_IF_ERROR(
      ToStatus(api, api.Call<ort::CreateTensor>(allocator, dims.data(), dims.size(),
                                                NumberOf(DataType::kString), value.out())));
  return value;
}

/// Copies the strings of `tensor`, which may hold any bytes.
Status FillStrings(Api api, const EngineTensor& tensor, ort::Value* value) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(ElementCount(tensor.dims)); ++i) {
    const StringElement element = StringAt(tensor.data, i);
    const std::string_view text = element.text();
    char* to = nullptr;
    LAGOON_RETURN_IF_ERROR(
        ToStatus(api, api.Call<ort::GetStringElementBuffer>(value, i, text.size(), &to)));
    if (!text.empty()) std::memcpy(to, text.data(), text.size());
  }
  return {};
}

/// The strings of an output.
struct MadeStrings {
  std::unique_ptr<char[]> text;
  std::vector<StringElement> elements;
};

Result<MadeStrings> ReadStrings(Api api, const ort::Value* value, const Dims& dims) {
  MadeStrings made;
  std::size_t bytes = 0;
  std::vector<std::size_t> offsets(static_cast<std::size_t>(ElementCount(dims)));
  LAGOON_RETURN_IF_ERROR(ToStatus(api, api.Call<ort::GetStringTensorDataLength>(value, &bytes)));
  made.text = std::make_unique_for_overwrite<char[]>(bytes + 1);  // an empty string has a place too
  LAGOON_RETURN_IF_ERROR(ToStatus(
      api, api.Call<ort::GetStringTensorContent>(value, static_cast<void*>(made.text.get()), bytes,
                                                 offsets.data(), offsets.size())));
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const std::size_t end = i + 1 < offsets.size() ? offsets[i + 1] : bytes;
    made.elements.push_back({made.text.get() + offsets[i], end - offsets[i]});
  }
  return made;
}

class OrtBinding final : public EngineBinding {
 public:
  OrtBinding(Api api, ort::Session* session, std::span<const char* const> input_names,
             std::span<const char* const> output_names)
      : api_(api),
        session_(session),
        options_(api),
        input_names_(input_names),
        output_names_(output_names) {}

  Status Bind(const ort::MemoryInfo* memory, std::span<const EngineTensor> inputs,
              std::span<const EngineTensor> outputs) {
    LAGOON_RETURN_IF_ERROR(ToStatus(api_, api_.Call<ort::CreateRunOptions>(options_.out())));
    for (const EngineTensor& input : inputs) {
      LAGOON_RETURN_IF_ERROR(Add(memory, input, inputs_));
    }
    outputs_.assign(outputs.begin(), outputs.end());
    for (const EngineTensor& output : outputs) {
      if (output.data == nullptr) {
        bound_.emplace_back(api_);
      } else {
        LAGOON_RETURN_IF_ERROR(Add(memory, output, bound_));
      }
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      input_values_.push_back(inputs_[i].get());
      if (inputs[i].type == DataType::kString) strings_.emplace_back(inputs[i], inputs_[i].get());
    }
    output_values_.resize(outputs.size());
    return {};
  }

  Status Run() override {
    stopped_ = false;
    made_.clear();
    made_strings_.clear();
    for (const auto& [tensor, value] : strings_) {
      LAGOON_RETURN_IF_ERROR(FillStrings(api_, tensor, value));
    }
    api_.Call<ort::RunOptionsUnsetTerminate>(options_.get());
    for (std::size_t i = 0; i < bound_.size(); ++i) output_values_[i] = bound_[i].get();
    ort::Status* const status = api_.Call<ort::Run>(
        session_, static_cast<const ort::RunOptions*>(options_.get()), input_names_.data(),
        static_cast<const ort::Value* const*>(input_values_.data()), input_values_.size(),
        output_names_.data(), output_names_.size(), output_values_.data());
    // All that the engine made are owned before any of them, or the run, can be an error.
    for (std::size_t i = 0; i < bound_.size(); ++i) {
      if (bound_[i].get() == nullptr) made_.emplace_back(api_, output_values_[i]);
    }
    LAGOON_RETURN_IF_ERROR(ToStatus(api_, status, stopped_));
    for (std::size_t i = 0; i < bound_.size(); ++i) {
      if (bound_[i].get() != nullptr) continue;
      LAGOON_RETURN_IF_ERROR(ReadValueShape(api_, output_values_[i], outputs_[i]));
      if (outputs_[i].type == DataType::kString) {
        LAGOON_ASSIGN_OR_RETURN(MadeStrings made,
                                ReadStrings(api_, output_values_[i], outputs_[i].dims));
        made_strings_.push_back(std::move(made));
        outputs_[i].data = made_strings_.back().elements.data();
        continue;
      }
      LAGOON_RETURN_IF_ERROR(ToStatus(
          api_, api_.Call<ort::GetTensorMutableData>(output_values_[i], &outputs_[i].data)));
    }
    return {};
  }

  void Stop() override {
    stopped_ = true;
    api_.Call<ort::RunOptionsSetTerminate>(options_.get());
  }

  const std::vector<EngineTensor>& outputs() const override { return outputs_; }

 private:
  Status Add(const ort::MemoryInfo* memory, const EngineTensor& tensor,
             std::vector<OwnedValue>& to) {
    if (tensor.type == DataType::kString) {
      LAGOON_ASSIGN_OR_RETURN(OwnedValue strings, MakeStrings(api_, tensor.dims));
      to.push_back(std::move(strings));
      return {};
    }
    OwnedValue value(api_);
    const std::size_t bytes =
        static_cast<std::size_t>(ElementCount(tensor.dims)) * SizeOf(tensor.type);
    LAGOON_RETURN_IF_ERROR(
        ToStatus(api_, api_.Call<ort::CreateTensorWithData>(memory, tensor.data, bytes,
                                                            tensor.dims.data(), tensor.dims.size(),
                                                            NumberOf(tensor.type), value.out())));
    to.push_back(std::move(value));
    return {};
  }

  const Api api_;
  ort::Session* const session_;
  OwnedRunOptions options_;
  const std::span<const char*const> input_names_, output_names_;
  std::vector<OwnedValue> inputs_;
  std::vector<std::pair<EngineTensor, ort::Value*>> strings_;  // inputs to fill before each run
  std::vector<OwnedValue> bound_;  // by output; null: the engine makes room
  std::vector<OwnedValue> made_;   // where it did, in the last run
  std::deque<MadeStrings> made_strings_;
  std::vector<const ort::Value*> input_values_;
  std::vector<ort::Value*> output_values_;
  std::vector<EngineTensor> outputs_;
  std::atomic<bool> stopped_{false};
};

class OrtModel final : public EngineModel {
 public:
  OrtModel(Api api, const ort::MemoryInfo* memory, OwnedSession session)
      : api_(api), memory_(memory), session_(std::move(session)) {}

  Status ReadSignature() {
    LAGOON_RETURN_IF_ERROR(
        (Read<ort::SessionGetInputCount, ort::SessionGetInputName, ort::SessionGetInputTypeInfo>(
            "input", signature_.inputs)));
    LAGOON_RETURN_IF_ERROR(
        (Read<ort::SessionGetOutputCount, ort::SessionGetOutputName, ort::SessionGetOutputTypeInfo>(
            "output", signature_.outputs)));
    for (const TensorSpec& input : signature_.inputs) input_names_.push_back(input.name.c_str());
    for (const TensorSpec& output : signature_.outputs)
      output_names_.push_back(output.name.c_str());
    return {};
  }

  const EngineSignature& Describe() const override { return signature_; }

  Result<std::unique_ptr<EngineBinding>> Bind(std::span<const EngineTensor> inputs,
                                              std::span<const EngineTensor> outputs) override {
    if (inputs.size() != input_names_.size() || outputs.size() != output_names_.size()) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} tensors for {} inputs, {} for {} outputs", inputs.size(),
                              input_names_.size(), outputs.size(), output_names_.size()));
    }
    auto binding = std::make_unique<OrtBinding>(api_, session_.get(), input_names_, output_names_);
    LAGOON_RETURN_IF_ERROR(binding->Bind(memory_, inputs, outputs));
    return binding;
  }

 private:
  template <typename GetCount, typename GetName, typename GetType>
  Status Read(const char* what, std::vector<TensorSpec>& specs) {
    void* allocator = nullptr;
    std::size_t count = 0;
    const ort::Session* const session = session_.get();
    LAGOON_RETURN_IF_ERROR(ToStatus(api_, api_.Call<ort::GetDefaultAllocator>(&allocator)));
    LAGOON_RETURN_IF_ERROR(ToStatus(api_, api_.Call<GetCount>(session, &count)));
    for (std::size_t i = 0; i < count; ++i) {
      TensorSpec& spec = specs.emplace_back();
      char* name = nullptr;
      LAGOON_RETURN_IF_ERROR(ToStatus(api_, api_.Call<GetName>(session, i, allocator, &name)));
      spec.name = name;
      ort::Status* const freed = api_.Call<ort::AllocatorFree>(allocator, static_cast<void*>(name));
      LAGOON_RETURN_IF_ERROR(ToStatus(api_, freed));
      Owned<ort::TypeInfo, ort::ReleaseTypeInfo> type(api_);
      LAGOON_RETURN_IF_ERROR(ToStatus(api_, api_.Call<GetType>(session, i, type.out())));
      const ort::TensorInfo* info = nullptr;  // borrowed from `type`
      const ort::TypeInfo* const borrowed = type.get();
      LAGOON_RETURN_IF_ERROR(
          ToStatus(api_, api_.Call<ort::CastTypeInfoToTensorInfo>(borrowed, &info)));
      const std::string label = fmt::format("{} '{}'", what, spec.name);
      if (info == nullptr) {
        return Fail(ErrorCode::kUnimplemented, label + " is no tensor, which is not supported");
      }
      LAGOON_RETURN_IF_ERROR(ReadTensorInfo(api_, info, label, spec.type, spec.dims));
    }
    return {};
  }

  const Api api_;
  const ort::MemoryInfo* const memory_;
  const OwnedSession session_;
  EngineSignature signature_;
  std::vector<const char*> input_names_, output_names_;
};

class OnnxRuntime final : public Engine {
 public:
  OnnxRuntime(Api api, std::string name)
      : api_(api), env_(api), memory_(api), name_(std::move(name)) {}

  Status Start() {
    LAGOON_RETURN_IF_ERROR(
        ToStatus(api_, api_.Call<ort::CreateEnv>(ort::kLogErrors + 1, "lagoon", env_.out())));
    return ToStatus(api_, api_.Call<ort::CreateCpuMemoryInfo>(ort::kDeviceAllocator,
                                                              ort::kMemoryDefault, memory_.out()));
  }

  const std::string& name() const override { return name_; }

  Result<std::unique_ptr<EngineModel>> Load(const EngineSource& source) override {
    Owned<ort::SessionOptions, ort::ReleaseSessionOptions> options(api_);
    LAGOON_RETURN_IF_ERROR(ToStatus(api_, api_.Call<ort::CreateSessionOptions>(options.out())));
    // With one thread there is no pool of threads, and so none that spins. Without the arena each
    // run allocates what it needs and frees it again.
    for (ort::Status* const set :
         {api_.Call<ort::SetIntraOpNumThreads>(options.get(), 1),
          api_.Call<ort::SetInterOpNumThreads>(options.get(), 1),
          api_.Call<ort::SetSessionExecutionMode>(options.get(), ort::kSequential),
          api_.Call<ort::SetSessionLogSeverityLevel>(options.get(), ort::kLogErrors + 1),
          api_.Call<ort::DisableCpuMemArena>(options.get())}) {
      LAGOON_RETURN_IF_ERROR(ToStatus(api_, set));
    }
    OwnedSession session(api_);
    const ort::Env* const env = env_.get();
    const ort::SessionOptions* const with = options.get();
    ort::Status* const created =
        source.file.empty()
            ? api_.Call<ort::CreateSessionFromArray>(env,
                                                     static_cast<const void*>(source.bytes.data()),
                                                     source.bytes.size(), with, session.out())
            : api_.Call<ort::CreateSession>(env, source.file.c_str(), with, session.out());
    LAGOON_RETURN_IF_ERROR(ToStatus(api_, created));
    auto model = std::make_unique<OrtModel>(api_, memory_.get(), std::move(session));
    LAGOON_RETURN_IF_ERROR(model->ReadSignature());
    return model;
  }

 private:
  const Api api_;
  OwnedEnv env_;
  OwnedMemoryInfo memory_;
  const std::string name_;
};

Result<std::shared_ptr<Engine>> OpenLibrary(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): glibc's dlerror is per thread
    const char* const problem = dlerror();
    return Fail(ErrorCode::kInvalidArgument, fmt::format("cannot be loaded: {}", problem));
  }
  using GetBase = const ort::ApiBase* (*)();
  const auto get_base = reinterpret_cast<GetBase>(dlsym(library, "OrtGetApiBase"));
  if (get_base == nullptr) {
    return Fail(ErrorCode::kInvalidArgument, "is no ONNX Runtime: it has no OrtGetApiBase");
  }
  const ort::ApiBase* const base = get_base();
  const std::string version = base->version();
  const void* const* const table = base->get_api(ort::kApiVersion);
  if (table == nullptr) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("is ONNX Runtime {}, which lacks version {} of the C API: use 1.{} or a "
                    "later one (pip install onnxruntime)",
                    version, ort::kApiVersion, ort::kApiVersion));
  }
  auto engine = std::make_shared<OnnxRuntime>(Api(table), "ONNX Runtime " + version);
  LAGOON_RETURN_IF_ERROR(engine->Start());
  return engine;
}

Result<std::shared_ptr<Engine>> TryAndOpen(const std::string& path, Nanoseconds limit) {
  if (access(path.c_str(), R_OK) != 0) {
    return Fail(ErrorCode::kNotFound, std::generic_category().message(errno));
  }
  const auto load = [&path]() -> Status {
    LAGOON_RETURN_IF_ERROR(OpenLibrary(path));
    return {};
  };
  LAGOON_RETURN_IF_ERROR(TryInChild(load, limit));
  return OpenLibrary(path);
}

/// The library of the package in a site-packages folder. Empty: none.
std::string FindInPackages(const fs::path& packages) {
  std::error_code error;
  for (const fs::directory_entry& file :
       fs::directory_iterator(packages / "onnxruntime" / "capi", error)) {
    const std::string name = file.path().filename();
    if (name.starts_with("libonnxruntime.so")) return file.path().string();
  }
  return {};
}

/// Whether any user may put files there: /tmp.
bool OthersMayWrite(const fs::path& folder) {
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  return error || (status.permissions() & fs::perms::others_write) != fs::perms::none;
}

}  // namespace

Result<std::shared_ptr<Engine>> OpenOnnxRuntime(const std::string& path, Nanoseconds limit) {
  Result<std::shared_ptr<Engine>> engine = TryAndOpen(path, limit);
  if (!engine) return Annotate("engine " + path, std::move(engine).error());
  return engine;
}

std::string FindOnnxRuntime(const std::string& folder) {
  std::error_code error;
  for (const fs::directory_entry& python :
       fs::directory_iterator(fs::path(folder) / ".venv" / "lib", error)) {
    std::string found = FindInPackages(python.path() / "site-packages");
    if (!found.empty()) return found;
  }
  return {};
}

std::string FindOnnxRuntimeAround(const std::string& program) {
  for (fs::path folder = fs::path(program).parent_path(); folder.has_relative_path();
       folder = folder.parent_path()) {
    if (OthersMayWrite(folder)) return {};
    const bool packages = folder.filename() == "site-packages";
    std::string found = packages ? FindInPackages(folder) : FindOnnxRuntime(folder);
    if (!found.empty()) return found;
  }
  return {};
}

}  // namespace lagoon
