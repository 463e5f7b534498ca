#include "bench/gpu/guards.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "bench/gpu/probe_args.cuh"
#include "bench/gpu/probe_program.h"
#include "bench/gpu/raw_gpu.h"
#include "bench/measure/statistics.h"

namespace lagoon::bench {
namespace {

using cuda::OwnMemory;
using std::chrono::seconds;

// A kernel ends by itself after kPatience, and kRoundPatience more for each round, so that no
// kernel runs on if this process dies.
constexpr Nanoseconds kPatience = seconds(30), kRoundPatience = std::chrono::milliseconds(1);
constexpr Nanoseconds kAnswerWithin = seconds(10);  // limit for the answers to one write
constexpr std::uint32_t kBusyBytes = 256u << 20;
constexpr std::uint32_t kBusyGridsOfUnits = 4;

enum class Way { kPinnedPoll, kWriteValue32, kBatchMemOp, kMemcpyAsync };
constexpr std::array<std::pair<Way, const char*>, 4> kWays = {
    {{Way::kPinnedPoll, "pinned_poll"},
     {Way::kWriteValue32, "write_value32"},
     {Way::kBatchMemOp, "batch_mem_op"},
     {Way::kMemcpyAsync, "memcpy_async"}}};

struct Samples {
  std::vector<double> first_us, all_us, call_us;
};

class Guards {
 public:
  static Result<std::unique_ptr<Guards>> Create(const GuardsOptions& options) {
    std::unique_ptr<Guards> guards(new Guards(options));
    LAGOON_RETURN_IF_ERROR(guards->Prepare());
    return guards;
  }

  ~Guards() {
    if (guard_.device() == 0) return;
    // After an error kernels may still run: the last values of their words end them.
    const auto last = static_cast<std::uint32_t>(options_.rounds);
    __atomic_store_n(Pinned(Word::kGuard), last, __ATOMIC_RELAXED);
    __atomic_store_n(Pinned(Word::kStop), 1u, __ATOMIC_RELAXED);
    gpu_->driver().write(guard_.device(), &last, sizeof(last));
  }
  Guards(const Guards&) = delete;
  Guards& operator=(const Guards&) = delete;

  Result<Samples> Measure(Way way, bool saturated) {
    LAGOON_RETURN_IF_ERROR(StartWatching(way));
    if (saturated) LAGOON_RETURN_IF_ERROR(Saturate());
    Samples samples;
    std::uniform_int_distribution<int> pause_us(20, 120);
    for (int round = 1; round <= options_.rounds; ++round) {
      const TimePoint until = Now() + std::chrono::microseconds(pause_us(random_));
      while (Now() < until) {
      }
      const auto value = static_cast<std::uint32_t>(round);
      const TimePoint begin = Now();
      LAGOON_RETURN_IF_ERROR(Write(way, value));
      const TimePoint called = Now();
      LAGOON_ASSIGN_OR_RETURN(const TimePoint first, AwaitSeen(value, 1));
      LAGOON_ASSIGN_OR_RETURN(const TimePoint all, AwaitSeen(value, options_.watchers));
      samples.call_us.push_back(ToMicroseconds(called - begin));
      samples.first_us.push_back(ToMicroseconds(first - begin));
      samples.all_us.push_back(ToMicroseconds(all - begin));
    }
    __atomic_store_n(Pinned(Word::kStop), 1u, __ATOMIC_RELAXED);
    LAGOON_RETURN_IF_ERROR(gpu_->Drain(watching_, kAnswerWithin));
    LAGOON_RETURN_IF_ERROR(gpu_->Drain(busy_, kAnswerWithin));
    return samples;
  }

 private:
  // Words in pinned memory, each in a cache line of its own. The watchers' words follow.
  enum class Word { kGuard, kSource, kStop, kRunning, kWatchers };
  static constexpr std::size_t kLine = 128;

  explicit Guards(const GuardsOptions& options) : options_(options), random_(options.seed) {}

  Status Prepare() {
    LAGOON_ASSIGN_OR_RETURN(gpu_, RawGpu::Open(options_.device));
    const cuda::Program& program =
        options_.program == nullptr ? cuda::ProbeProgram() : *options_.program;
    LAGOON_ASSIGN_OR_RETURN(functions_, gpu_->Load(program));
    LAGOON_ASSIGN_OR_RETURN(watching_, gpu_->NewStream(/*urgent=*/true));
    LAGOON_ASSIGN_OR_RETURN(writing_, gpu_->NewStream(/*urgent=*/true));
    LAGOON_ASSIGN_OR_RETURN(busy_, gpu_->NewStream(/*urgent=*/false));
    const std::size_t words = kLine * static_cast<std::size_t>(Word::kWatchers);
    LAGOON_ASSIGN_OR_RETURN(pinned_, gpu_->Allocate(words + options_.watchers * sizeof(cuda::u64),
                                                    OwnMemory::Where::kPinned));
    LAGOON_ASSIGN_OR_RETURN(guard_, gpu_->Allocate(kLine, OwnMemory::Where::kDevice));
    LAGOON_ASSIGN_OR_RETURN(data_, gpu_->Allocate(kBusyBytes, OwnMemory::Where::kDevice));
    return {};
  }

  std::uint32_t* Pinned(Word word) const {
    return reinterpret_cast<std::uint32_t*>(pinned_.host() + Offset(word));
  }
  cuda::Address OnGpu(Word word) const { return pinned_.device() + Offset(word); }
  static std::size_t Offset(Word word) { return kLine * static_cast<std::size_t>(word); }
  const cuda::u64* Seen() const {
    return reinterpret_cast<const cuda::u64*>(pinned_.host() + Offset(Word::kWatchers));
  }

  template <typename Args>
  Status Launch(cuda::ProbeEntry entry, cuda::probe::Body body, std::uint32_t grid,
                cuda::Stream stream, const Args& args) {
    params_.body = static_cast<cuda::u32>(body);
    std::memcpy(params_.args, &args, sizeof(args));
    return gpu_->Launch(functions_[static_cast<std::size_t>(entry)], grid, cuda::probe::kThreads,
                        cuda::kProtocolSharedBytes, stream, params_);
  }

  Status StartWatching(Way way) {
    std::memset(pinned_.host(), 0, pinned_.bytes());
    LAGOON_RETURN_IF_ERROR(
        gpu_->Check(gpu_->driver().fill(guard_.device(), 0, guard_.bytes()), "cuMemsetD8"));
    LAGOON_RETURN_IF_ERROR(gpu_->Check(gpu_->driver().synchronize(), "cuCtxSynchronize"));
    const bool polls = way == Way::kPinnedPoll;
    const cuda::Address word = polls ? OnGpu(Word::kGuard) : guard_.device();
    LAGOON_RETURN_IF_ERROR(
        Launch(cuda::ProbeEntry::kWatch, cuda::probe::Body::kWatch, options_.watchers, watching_,
               cuda::probe::WatchArgs{reinterpret_cast<const cuda::u32*>(word),
                                      reinterpret_cast<cuda::u64*>(OnGpu(Word::kWatchers)),
                                      static_cast<cuda::u32>(options_.rounds), polls ? 1u : 0u,
                                      PatienceNs()}));
    LAGOON_ASSIGN_OR_RETURN(
        [[maybe_unused]] const TimePoint started,
        Await([&] { return SeenBy(0) == options_.watchers; }, "the watching blocks to start"));
    return {};
  }

  Status Saturate() {
    const cuda::probe::BusyArgs args{reinterpret_cast<const float*>(data_.device()),
                                     reinterpret_cast<float*>(data_.device()),
                                     reinterpret_cast<const cuda::u32*>(OnGpu(Word::kStop)),
                                     reinterpret_cast<cuda::u32*>(OnGpu(Word::kRunning)),
                                     kBusyBytes / sizeof(float),
                                     0,
                                     PatienceNs()};
    LAGOON_RETURN_IF_ERROR(Launch(cuda::ProbeEntry::kBusy, cuda::probe::Body::kBusy,
                                  gpu_->info().multiprocessors * kBusyGridsOfUnits, busy_, args));
    LAGOON_ASSIGN_OR_RETURN(
        [[maybe_unused]] const TimePoint started,
        Await([&] { return __atomic_load_n(Pinned(Word::kRunning), __ATOMIC_RELAXED) != 0; },
              "the saturating kernel to start"));
    return {};
  }

  Status Write(Way way, std::uint32_t value) {
    const cuda::Driver& driver = gpu_->driver();
    switch (way) {
      case Way::kPinnedPoll:
        __atomic_store_n(Pinned(Word::kGuard), value, __ATOMIC_RELAXED);
        return {};
      case Way::kWriteValue32:
        return gpu_->Check(driver.write_value32(writing_, guard_.device(), value, 0),
                           "cuStreamWriteValue32");
      case Way::kBatchMemOp: {
        cuda::BatchWrite write{.to = guard_.device(), .value = value};
        return gpu_->Check(driver.batch_write(writing_, 1, &write, 0), "cuStreamBatchMemOp");
      }
      case Way::kMemcpyAsync:
        *Pinned(Word::kSource) = value;
        return gpu_->Check(
            driver.copy_to_device(guard_.device(), Pinned(Word::kSource), sizeof(value), writing_),
            "cuMemcpyHtoDAsync");
    }
    return {};
  }

  cuda::u64 PatienceNs() const {
    return static_cast<cuda::u64>((kPatience + options_.rounds * kRoundPatience).count());
  }

  // Number of blocks that have seen `value`.
  std::uint32_t SeenBy(std::uint32_t value) const {
    std::uint32_t blocks = 0;
    for (std::uint32_t i = 0; i < options_.watchers; ++i) {
      if (__atomic_load_n(Seen() + i, __ATOMIC_ACQUIRE) == cuda::u64{value} + 1) ++blocks;
    }
    return blocks;
  }
  Result<TimePoint> AwaitSeen(std::uint32_t value, std::uint32_t blocks) const {
    return Await([&] { return SeenBy(value) >= blocks; }, "blocks to see a word");
  }

  template <typename Condition>
  Result<TimePoint> Await(const Condition& condition, const char* what) const {
    const TimePoint end = Now() + kAnswerWithin;
    for (;;) {
      const bool met = condition();
      const TimePoint now = Now();
      if (met) return now;
      if (now > end) {
        return Fail(ErrorCode::kDeadlineExceeded,
                    fmt::format("device '{}': waited {} s for {}", options_.device.name,
                                std::chrono::duration_cast<seconds>(kAnswerWithin).count(), what));
      }
    }
  }

  const GuardsOptions options_;
  std::mt19937 random_;
  std::unique_ptr<RawGpu> gpu_;
  std::vector<cuda::Function> functions_;
  cuda::Stream watching_ = nullptr, writing_ = nullptr, busy_ = nullptr;
  OwnMemory pinned_, guard_, data_;
  cuda::GridParams params_{};
};

}  // namespace

Status RunGuards(const GuardsOptions& options, Report& report) {
  LAGOON_ASSIGN_OR_RETURN(const auto guards, Guards::Create(options));
  ProgressBar progress("guards", static_cast<int>(2 * kWays.size()));
  for (const auto& [way, way_name] : kWays) {
    const std::string name = way_name;
    for (const bool saturated : {false, true}) {
      const std::string state = saturated ? "saturated" : "idle";
      LAGOON_ASSIGN_OR_RETURN(const Samples samples, guards->Measure(way, saturated));
      const auto metric = [&](const std::string& what, const std::vector<double>& us,
                              const std::string& of, double percent) {
        report.Metric(fmt::format("{}_p{:g}.{}.{}{}", what, percent, name, state, of),
                      Percentile(us, percent));
      };
      for (const double percent : {50.0, 99.0}) {
        metric("guard_us", samples.first_us, "", percent);
        metric("guard_us", samples.all_us, ".all", percent);
      }
      metric("guard_call_us", samples.call_us, "", 50);
      progress.Step(fmt::format("{}, {}", name, state));
    }
  }
  return {};
}

}  // namespace lagoon::bench
