#pragma once

// A CUDA body on a device, for tests: the emulated GPU or a real one.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "device/cuda/driver/program.h"
#include "device/device.h"
#include "kernels/cuda/kernel.h"

namespace lagoon::cuda::testing {

/// A kernel with operands in the memory of `gpu`, which must be idle and must outlive this object.
/// `guard` is a guard of that device. Failures of the device fail the test.
class GpuBody {
 public:
  using Bytes = std::vector<std::byte>;

  /// `program`: it has an entry for each body.
  GpuBody(Device& gpu, GuardId guard, const Program& program, const CudaKernel& kernel,
          std::span<const std::span<const std::byte>> inputs,
          std::span<const std::size_t> output_bytes)
      : gpu_(gpu),
        guard_(guard),
        image_(
            std::make_unique<CudaImage>(CudaImage{&program, static_cast<std::uint32_t>(kernel.body),
                                                  static_cast<std::uint32_t>(kernel.body),
                                                  static_cast<std::uint32_t>(kernel.args.size())})),
        args_(kernel.args),
        words_(std::make_unique<Progress::Word[]>(Progress::WordsFor(kernel.blocks))),
        progress_(kernel.blocks, std::span(words_.get(), Progress::WordsFor(kernel.blocks))),
        random_(kernel.blocks),
        epoch_(gpu.GuardWord(guard)->load()) {
    const auto loaded =
        gpu.Load({kernel.name, nullptr, image_.get()}, {.scratch_bytes = kernel.shared_bytes});
    if (!Succeeded(loaded)) return;
    kernel_ = *loaded;
    EXPECT_EQ(kernel.inputs.size(), inputs.size());
    EXPECT_EQ(kernel.outputs.size(), output_bytes.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      inputs_.push_back(Allocate(inputs[i].size()));
      Write(inputs_.back(), inputs[i]);
      Bind(kernel.inputs[i], inputs_.back());
    }
    for (std::size_t i = 0; i < output_bytes.size(); ++i) {
      outputs_.push_back(Allocate(output_bytes[i]));
      Bind(kernel.outputs[i], outputs_.back());
    }
  }
  // Not copyable: launches pass the address of `progress_` to the device.
  GpuBody(const GpuBody&) = delete;
  GpuBody& operator=(const GpuBody&) = delete;

  /// Poisons the outputs, runs the kernel until it is complete, and reads the outputs. Revokes it
  /// `revocations` times, each at a random time of at most `longest` after the launch.
  std::vector<Bytes> Run(int revocations = 0, Nanoseconds longest = {}) {
    progress_.Reset();
    Poison();
    for (int left = revocations; !progress_.Complete(); --left) {
      if (left < -1 || ::testing::Test::HasFatalFailure()) {
        ADD_FAILURE() << progress_.blocks() - progress_.done() << " tiles are left";
        return {};
      }
      std::optional<Nanoseconds> after;
      if (left > 0) after = Nanoseconds(random_() % static_cast<std::uint64_t>(longest.count()));
      Launch(after);
    }
    return Outputs();
  }

  /// Expects that a launch with a raised guard leaves the outputs unchanged.
  void ExpectStaysOutWhenRevoked() {
    progress_.Reset();
    Poison();
    lagoon::Launch kernel_launch = MakeLaunch();
    Raise();
    Submit(kernel_launch);
    EXPECT_EQ(progress_.done(), 0u);
    for (const Bytes& bytes : Outputs()) {
      EXPECT_TRUE(
          std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == kPoison; }));
    }
  }

 private:
  static constexpr auto kPoison = std::byte{0xad};

  template <typename T>
  static bool Succeeded(const Result<T>& result) {
    if (!result) ADD_FAILURE() << result.error().message;
    return result.has_value();
  }

  Buffer Allocate(std::size_t bytes) {
    Result<Buffer> buffer = gpu_.Allocate(std::max<std::size_t>(bytes, 1), MemoryKind::kDevice);
    return Succeeded(buffer) ? *std::move(buffer) : Buffer();
  }
  void Write(const Buffer& to, std::span<const std::byte> from) {
    const Status status = gpu_.Upload(to.data(), from);
    EXPECT_TRUE(status) << status.error().message;
  }
  void Bind(std::uint32_t offset, const Buffer& operand) {
    const std::byte* const address = operand.data();
    std::memcpy(args_.data() + offset, &address, sizeof(address));
  }
  void Poison() {
    for (const Buffer& output : outputs_) Write(output, Bytes(output.size(), kPoison));
  }

  std::vector<Bytes> Outputs() {
    std::vector<Bytes> outputs;
    for (const Buffer& output : outputs_) {
      Bytes& bytes = outputs.emplace_back(output.size());
      const std::uint32_t blocks = CopyBlocks(bytes.size());
      const auto words = std::make_unique<Progress::Word[]>(Progress::WordsFor(blocks));
      Progress copied(blocks, std::span(words.get(), Progress::WordsFor(blocks)));
      copied.Reset();
      Copy copy;
      copy.progress = &copied;
      copy.id = LaunchId{next_id_++};
      copy.to = bytes.data();
      copy.from = output.data();
      copy.bytes = bytes.size();
      EXPECT_EQ(gpu_.Transfer(copy), SubmitResult::kOk);
      AwaitRetired(std::nullopt);
    }
    return outputs;
  }

  lagoon::Launch MakeLaunch() {
    lagoon::Launch kernel_launch;
    kernel_launch.kernel = kernel_;
    kernel_launch.args = args_.data();
    kernel_launch.progress = &progress_;
    kernel_launch.guards[0] = {gpu_.GuardWord(guard_), epoch_};
    return kernel_launch;
  }
  void Raise() { EXPECT_EQ(gpu_.Raise(guard_, ++epoch_), SubmitResult::kOk); }
  void Launch(std::optional<Nanoseconds> revoke_after) { Submit(MakeLaunch(), revoke_after); }

  void Submit(const lagoon::Launch& kernel_launch, std::optional<Nanoseconds> revoke_after = {}) {
    ASSERT_EQ(gpu_.Submit(kernel_launch.As(LaunchId{next_id_++})), SubmitResult::kOk);
    AwaitRetired(revoke_after);
  }

  void AwaitRetired(std::optional<Nanoseconds> revoke_after) {
    constexpr auto kPatience = std::chrono::seconds(60);
    const TimePoint begin = gpu_.Now();
    TimePoint revoke_at = revoke_after ? begin + *revoke_after : TimePoint::max();
    std::array<DeviceEvent, 8> events;
    while (gpu_.Now() < begin + kPatience) {
      const std::size_t count = gpu_.Poll(events);
      for (const DeviceEvent& event : std::span(events).first(count)) {
        ASSERT_NE(event.kind, DeviceEvent::Kind::kLost) << "the device is lost";
        if (event.kind == DeviceEvent::Kind::kRetired) return;
      }
      if (gpu_.Now() >= revoke_at) {
        Raise();
        revoke_at = TimePoint::max();
      } else if (count == 0) {
        gpu_.Wait(std::min(revoke_at, gpu_.Now() + std::chrono::milliseconds(1)));
      }
    }
    FAIL() << "the launch does not retire";
  }

  Device& gpu_;
  const GuardId guard_;
  const std::unique_ptr<CudaImage> image_;
  Bytes args_;
  std::unique_ptr<Progress::Word[]> words_;
  Progress progress_;
  std::mt19937 random_;
  KernelHandle kernel_{};
  std::uint32_t epoch_;
  std::uint64_t next_id_ = 1;
  std::vector<Buffer> inputs_, outputs_;
};

}  // namespace lagoon::cuda::testing
