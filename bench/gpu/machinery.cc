#include "bench/gpu/machinery.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <utility>

#include "base/check.h"
#include "bench/client/bound_model.h"
#include "bench/gpu/probe_program.h"
#include "bench/gpu/raw_gpu.h"
#include "bench/measure/statistics.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/driver/source_program.h"
#include "device/cuda/work.h"
#include "device/forwarding_device.h"
#include "kernels/cuda/op_program.h"

namespace lagoon::bench {
namespace {

using cuda::OwnMemory;

constexpr std::uint32_t kRingNotes = 1u << 16;

/// Remembers each kernel that was loaded, by its handle.
class RecordingDevice final : public ForwardingDevice {
 public:
  struct Loaded {
    const CudaImage* image = nullptr;
    std::size_t shared_bytes = 0;
  };
  using ForwardingDevice::ForwardingDevice;

  Result<KernelHandle> Load(const CodeImage& image, const KernelSpec& spec) override {
    Result<KernelHandle> handle = device_.Load(image, spec);
    if (handle) loaded_[*handle] = {image.cuda, cuda::kProtocolSharedBytes + spec.scratch_bytes};
    return handle;
  }
  const Loaded& loaded(KernelHandle handle) const { return loaded_.at(handle); }

 private:
  std::map<KernelHandle, Loaded> loaded_;
};

struct ModelKernel {
  const PlanOp* op = nullptr;
  const CudaImage* image = nullptr;
  std::size_t shared_bytes = 0;
  std::uint32_t blocks = 0;
  const void* args = nullptr;
  cuda::Function plain = nullptr, entry = nullptr;
  unsigned threads = 0;
  std::uint32_t at_once = 0;  // blocks that the GPU holds
};

enum class Variant { kPlain, kProtocol, kNotes };

class Machinery {
 public:
  static Result<std::unique_ptr<Machinery>> Create(const MachineryOptions& options,
                                                   const std::string& model) {
    std::unique_ptr<Machinery> machinery(new Machinery(options));
    LAGOON_RETURN_IF_ERROR(machinery->LoadModel(model));
    LAGOON_RETURN_IF_ERROR(machinery->Prepare());
    return machinery;
  }
  ~Machinery() {
    if (gpu_ == nullptr) return;
    gpu_->driver().synchronize();
    for (cuda::Event event : {begin_, end_}) {
      if (event != nullptr) gpu_->driver().destroy_event(event);
    }
  }
  Machinery(const Machinery&) = delete;
  Machinery& operator=(const Machinery&) = delete;

  std::span<const ModelKernel> kernels() const { return kernels_; }

  /// Microseconds of one launch of the kernel: the mean of many in a graph.
  Result<double> KernelUs(const ModelKernel& kernel, Variant variant) {
    const std::vector<ModelKernel> many(static_cast<std::size_t>(options_.repeats), kernel);
    LAGOON_ASSIGN_OR_RETURN(const double us, GraphUs(many, variant));
    return us / options_.repeats;
  }

  /// Microseconds of one launch of every kernel, as a graph.
  ///
  /// The graph launches all kernels twice, and the time is halved. All launches share the words of
  /// one record. A launch takes work for done if the words of that work carry the launch's tag, and
  /// every run of the graph has the same tags as the run before. With one launch of each kernel,
  /// the kernel with the most blocks would find its own tag of the run before in the last words,
  /// which no other kernel writes. With two launches, it finds the tag of its other launch there.
  Result<double> ChainGraphUs(Variant variant) {
    std::vector<ModelKernel> twice = kernels_;
    twice.insert(twice.end(), kernels_.begin(), kernels_.end());
    LAGOON_ASSIGN_OR_RETURN(const double us, GraphUs(twice, variant));
    return us / 2;
  }

  /// Microseconds of the launches as a graph, which needs at least two launches of each kernel.
  Result<double> GraphUs(std::span<const ModelKernel> kernels, Variant variant) {
    cuda::Graph graph = nullptr;
    cuda::GraphExec instance = nullptr;
    const cuda::Driver& driver = gpu_->driver();
    LAGOON_RETURN_IF_ERROR(gpu_->Check(driver.begin_capture(stream_, cuda::kCaptureThreadLocal),
                                       "cuStreamBeginCapture"));
    const Status launched = LaunchAll(kernels, variant);
    const cuda::Code ended = driver.end_capture(stream_, &graph);
    LAGOON_RETURN_IF_ERROR(launched);
    LAGOON_RETURN_IF_ERROR(gpu_->Check(ended, "cuStreamEndCapture"));
    Status made =
        gpu_->Check(driver.instantiate_graph(&instance, graph, 0), "cuGraphInstantiateWithFlags");
    driver.destroy_graph(graph);
    LAGOON_RETURN_IF_ERROR(made);
    Result<double> us = MedianUs(
        [&] { return gpu_->Check(driver.launch_graph(instance, stream_), "cuGraphLaunch"); });
    driver.destroy_graph_instance(instance);
    if (us && variant != Variant::kPlain) LAGOON_RETURN_IF_ERROR(CheckLast(kernels.back()));
    return us;
  }

  /// Microseconds of the same, launched one by one.
  Result<double> LaunchesUs(std::span<const ModelKernel> kernels, Variant variant) {
    LAGOON_ASSIGN_OR_RETURN(const double us, MedianUs([&] { return LaunchAll(kernels, variant); }));
    if (variant != Variant::kPlain) LAGOON_RETURN_IF_ERROR(CheckLast(kernels.back()));
    return us;
  }

 private:
  explicit Machinery(const MachineryOptions& options) : options_(options) {}

  Status LoadModel(const std::string& model) {
    LAGOON_ASSIGN_OR_RETURN(gpu_, RawGpu::Open(options_.device));
    LAGOON_ASSIGN_OR_RETURN(opened_, OpenDevice(options_.device));
    auto recording = std::make_unique<RecordingDevice>(*opened_.device);
    recording_ = recording.get();
    on_ = {.kernels = std::move(opened_.kernels), .device = std::move(recording)};
    LAGOON_ASSIGN_OR_RETURN(
        model_, BoundModel::Load(ModelFile(options_.zoo, model), model, on_,
                                 {.batch = options_.batch, .precision = options_.precision}));
    return model_->Run(*on_.device);
  }

  Status Prepare() {
    const Plan& plan = model_->instance().plan();
    std::uint32_t most_blocks = 1;
    for (std::size_t i = 0; i < plan.ops.size(); ++i) {
      const RecordingDevice::Loaded& loaded = recording_->loaded(plan.ops[i].kernel);
      kernels_.push_back({.op = &plan.ops[i],
                          .image = loaded.image,
                          .shared_bytes = loaded.shared_bytes,
                          .blocks = plan.ops[i].blocks,
                          .args = model_->instance().launch(i).args});
      most_blocks = std::max(most_blocks, plan.ops[i].blocks);
    }
    LAGOON_RETURN_IF_ERROR(LoadFunctions());
    LAGOON_ASSIGN_OR_RETURN(stream_, gpu_->NewStream(/*urgent=*/true));
    const cuda::Driver& driver = gpu_->driver();
    LAGOON_RETURN_IF_ERROR(gpu_->Check(driver.create_event(&begin_, 0), "cuEventCreate"));
    LAGOON_RETURN_IF_ERROR(gpu_->Check(driver.create_event(&end_, 0), "cuEventCreate"));
    const auto allocate = [&](std::size_t bytes, OwnMemory::Where where) {
      return gpu_->Allocate(bytes, where);
    };
    const std::size_t words = (most_blocks + 31) / 32;
    LAGOON_ASSIGN_OR_RETURN(
        record_, allocate((kLine + words) * sizeof(cuda::u64), OwnMemory::Where::kDevice));
    LAGOON_ASSIGN_OR_RETURN(state_, allocate(sizeof(cuda::IssueState), OwnMemory::Where::kDevice));
    LAGOON_ASSIGN_OR_RETURN(done_, allocate(sizeof(cuda::u64), OwnMemory::Where::kPinned));
    LAGOON_ASSIGN_OR_RETURN(head_, allocate(sizeof(cuda::u64), OwnMemory::Where::kDevice));
    LAGOON_ASSIGN_OR_RETURN(ring_,
                            allocate(kRingNotes * sizeof(cuda::u64), OwnMemory::Where::kPinned));
    return {};
  }

  Status LoadFunctions() {
    const cuda::Program& program = *kernels_.front().image->program;
    LAGOON_ASSIGN_OR_RETURN(const std::vector<cuda::Function> entries, gpu_->Load(program));
    std::vector<PlainBody> bodies;
    std::map<std::uint32_t, std::size_t> places;  // by body
    for (const ModelKernel& kernel : kernels_) {
      const CudaImage& image = *kernel.image;
      LAGOON_CHECK(image.program == &program);
      if (!places.emplace(image.body, bodies.size()).second) continue;
      bodies.push_back({image.body, program.entries()[image.entry].threads});
    }
    plain_program_ = options_.plain ? options_.plain(bodies) : PlainProgram(bodies);
    LAGOON_ASSIGN_OR_RETURN(const std::vector<cuda::Function> plain, gpu_->Load(*plain_program_));
    for (ModelKernel& kernel : kernels_) {
      const CudaImage& image = *kernel.image;
      kernel.plain = plain[places.at(image.body)];
      kernel.entry = entries[image.entry];
      kernel.threads = program.entries()[image.entry].threads;
      int occupancy = 0;
      LAGOON_RETURN_IF_ERROR(gpu_->Check(
          gpu_->driver().occupancy(&occupancy, kernel.entry, static_cast<int>(kernel.threads),
                                   kernel.shared_bytes),
          "cuOccupancyMaxActiveBlocksPerMultiprocessor"));
      kernel.at_once = gpu_->info().multiprocessors * static_cast<std::uint32_t>(occupancy);
    }
    return {};
  }

  Status LaunchAll(std::span<const ModelKernel> kernels, Variant variant) {
    for (const ModelKernel& kernel : kernels) {
      FillParams(kernel, variant);
      LAGOON_RETURN_IF_ERROR(gpu_->Launch(variant == Variant::kPlain ? kernel.plain : kernel.entry,
                                          kernel.blocks, kernel.threads, kernel.shared_bytes,
                                          stream_, params_));
    }
    return {};
  }

  // Fills the parameters as GpuDevice does. All launches use the words of one record, one after the
  // other. Every launch gets a tag of its own when its graph is recorded, and takes words with
  // another tag for untouched. ChainGraphUs() says what that means for a graph that runs again.
  void FillParams(const ModelKernel& kernel, Variant variant) {
    const std::uint32_t tag = ++tag_;
    auto* const words = reinterpret_cast<cuda::u64*>(record_.device());
    params_.state = reinterpret_cast<cuda::IssueState*>(state_.device());
    params_.ring = {reinterpret_cast<cuda::u64*>(ring_.device()),
                    reinterpret_cast<cuda::u64*>(head_.device()),
                    variant == Variant::kNotes ? kRingNotes : 0, 0};
    params_.issue = tag;
    params_.record = {words, words + kLine, tag, kernel.blocks};
    params_.body = kernel.image->body;
    params_.tiles_per_block = 1;
    params_.opening = kernel.blocks <= cuda::kMostOpenedTiles ? 1 : 0;
    params_.count_interval =
        params_.opening != 0 && kernel.blocks <= kernel.at_once
            ? 0
            : cuda::CountInterval(kernel.blocks, CudaDeviceOptions().count_interval);
    std::memcpy(params_.args, kernel.args, kernel.image->args_bytes);
  }

  // Checks that the last launch has run all its blocks, so that real work was measured.
  Status CheckLast(const ModelKernel& last) {
    const cuda::Driver& driver = gpu_->driver();
    LAGOON_RETURN_IF_ERROR(
        gpu_->Check(driver.copy_to_host(done_.host(), record_.device(), sizeof(cuda::u64), stream_),
                    "cuMemcpyDtoHAsync"));
    LAGOON_RETURN_IF_ERROR(gpu_->Drain(stream_, std::chrono::seconds(10)));
    cuda::u64 done = 0;
    std::memcpy(&done, done_.host(), sizeof(done));
    if (cuda::DoneOf(done, last.blocks) == last.blocks) return {};
    return Fail(ErrorCode::kInternal, fmt::format("body {}: {} of {} blocks ran", last.image->body,
                                                  cuda::DoneOf(done, last.blocks), last.blocks));
  }

  template <typename Work>
  Result<double> MedianUs(const Work& work) {
    const cuda::Driver& driver = gpu_->driver();
    std::vector<double> us;
    for (int round = 0; round <= options_.rounds; ++round) {
      LAGOON_RETURN_IF_ERROR(gpu_->Check(driver.record_event(begin_, stream_), "cuEventRecord"));
      LAGOON_RETURN_IF_ERROR(work());
      LAGOON_RETURN_IF_ERROR(gpu_->Check(driver.record_event(end_, stream_), "cuEventRecord"));
      LAGOON_RETURN_IF_ERROR(gpu_->Check(driver.synchronize_event(end_), "cuEventSynchronize"));
      float elapsed_ms = 0;
      LAGOON_RETURN_IF_ERROR(
          gpu_->Check(driver.elapsed(&elapsed_ms, begin_, end_), "cuEventElapsedTime"));
      if (round > 0) us.push_back(1000.0 * elapsed_ms);  // the first round warms caches
    }
    return Median(std::move(us));
  }

  static constexpr std::size_t kLine = 16;  // words of a cache line, between count and claims

  const MachineryOptions options_;
  std::unique_ptr<RawGpu> gpu_;
  ComputeDevice opened_, on_;  // the device, and the recording device in front of it
  RecordingDevice* recording_ = nullptr;
  std::unique_ptr<BoundModel> model_;
  std::unique_ptr<const cuda::Program> plain_program_;
  std::vector<ModelKernel> kernels_;
  cuda::Stream stream_ = nullptr;
  cuda::Event begin_ = nullptr, end_ = nullptr;
  OwnMemory record_, state_, head_, ring_, done_;
  cuda::GridParams params_{};
  std::uint32_t tag_ = 0;
};

Status MeasureModel(const MachineryOptions& options, const std::string& model, Report& report) {
  LAGOON_ASSIGN_OR_RETURN(const auto machinery, Machinery::Create(options, model));
  const std::span<const ModelKernel> kernels = machinery->kernels();
  constexpr std::array<std::pair<Variant, const char*>, 3> kVariants = {
      {{Variant::kPlain, "plain"}, {Variant::kProtocol, "protocol"}, {Variant::kNotes, "notes"}}};
  std::array<double, 3> sums{};
  double most = 0;
  nlohmann::json rows = nlohmann::json::array();
  ProgressBar progress(model, static_cast<int>(kernels.size()));
  for (const ModelKernel& kernel : kernels) {
    std::array<double, 3> us{};
    for (std::size_t i = 0; i < us.size(); ++i) {
      LAGOON_ASSIGN_OR_RETURN(us[i], machinery->KernelUs(kernel, kVariants[i].first));
      sums[i] += us[i];
    }
    most = std::max(most, us[1] / us[0] - 1);
    rows.push_back({{"name", kernel.op->name},
                    {"kernel", kernel.op->kernel_name},
                    {"blocks", kernel.blocks},
                    {"mflops", kernel.op->flops / 1e6},
                    {"plain_us", us[0]},
                    {"protocol_us", us[1]},
                    {"notes_us", us[2]}});
    progress.Step("kernels");
  }
  report.Field("kernels." + model, std::move(rows));
  for (std::size_t i = 0; i < sums.size(); ++i) {
    report.Metric(fmt::format("kernels_us.{}.{}", model, kVariants[i].second), sums[i]);
  }
  report.Metric("protocol_cost." + model, sums[1] / sums[0] - 1);
  report.Metric("protocol_cost_most." + model, most);
  report.Metric("notes_cost." + model, sums[2] / sums[1] - 1);
  for (const auto& [variant, name] : {kVariants[0], kVariants[2]}) {
    LAGOON_ASSIGN_OR_RETURN(const double launches, machinery->LaunchesUs(kernels, variant));
    LAGOON_ASSIGN_OR_RETURN(const double graph, machinery->ChainGraphUs(variant));
    report.Metric(fmt::format("chain_us.{}.{}.launches", model, name), launches);
    report.Metric(fmt::format("chain_us.{}.{}.graph", model, name), graph);
  }
  return {};
}

}  // namespace

std::vector<cuda::EntryName> PlainEntries(std::span<const PlainBody> bodies) {
  std::vector<cuda::EntryName> entries;
  for (const PlainBody& body : bodies) {
    entries.push_back({fmt::format("lagoon_plain_{}", body.body), body.threads});
  }
  return entries;
}

std::unique_ptr<const cuda::Program> PlainProgram(std::span<const PlainBody> bodies) {
  cuda::SourceProgram::Source source = cuda::OpSource();
  constexpr char kPlain[] = "bench/gpu/plain.cuh";
  std::vector<cuda::SourceFile> files = cuda::EmbeddedProbeSources();
  for (cuda::SourceFile& file : files) {
    if (file.name == kPlain) source.headers.push_back(std::move(file));
  }
  source.entries = PlainEntries(bodies);
  source.main = {"plain.cu",
                 "#include \"bench/gpu/plain.cuh\"\n#include \"kernels/cuda/bodies/bodies.cuh\"\n"};
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    source.main.text += fmt::format(
        "LAGOON_CUDA_PLAIN_ENTRY({}, lagoon::cuda::OpBody<lagoon::cuda::BodyId{{{}}}>)\n",
        source.entries[i].name, bodies[i].body);
  }
  return std::make_unique<cuda::SourceProgram>(std::move(source),
                                               cuda::ImageCache(cuda::ImageCache::DefaultFolder()));
}

Status RunMachinery(const MachineryOptions& options, Report& report) {
  for (const std::string& model : options.models) {
    LAGOON_RETURN_IF_ERROR(MeasureModel(options, model, report));
  }
  return {};
}

}  // namespace lagoon::bench
