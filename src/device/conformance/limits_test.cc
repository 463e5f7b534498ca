// Conformance: transfers, bounds, events, memory, time.

#include <algorithm>
#include <array>
#include <thread>
#include <vector>

#include "device/conformance/suite.h"

namespace lagoon::conformance {
namespace {

TEST_P(DeviceConformance, TransfersCopyEveryByteExactlyOnceWhateverIsRaised) {
  const auto device = Create();
  Session session(*device);
  const GuardId guard = session.NewGuard();
  const KernelHandle count = session.Load(CountBody);
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, kCopyChunkBytes, 10 * kCopyChunkBytes + 777}) {
    std::vector<std::byte> from(bytes), to(bytes + 64, std::byte{0xee});
    for (std::size_t i = 0; i < bytes; ++i) from[i] = static_cast<std::byte>(i * 7 + i / 251);
    Record record(CopyBlocks(bytes));
    CountArgs args;
    Record after(1);
    const Dep dep = record.AllDone();
    const LaunchId reader = session.Submit(
        Launch{.kernel = count, .args = &args, .progress = after.get(), .deps = {&dep, 1}});
    const LaunchId copy = session.Transfer(
        {.to = to.data(), .from = from.data(), .bytes = bytes, .progress = record.get()});
    session.Raise(guard, static_cast<std::uint32_t>(bytes) + 1);
    session.AwaitAllRetired();
    EXPECT_TRUE(session.Complete(copy));
    EXPECT_EQ(record->done(), CopyBlocks(bytes));
    EXPECT_LE(session.CompleteAt(copy), session.PlacedAt(reader));
    EXPECT_TRUE(std::equal(from.begin(), from.end(), to.begin()));
    EXPECT_TRUE(std::all_of(to.begin() + static_cast<std::ptrdiff_t>(bytes), to.end(),
                            [](std::byte value) { return value == std::byte{0xee}; }));
    // Exactly once: bytes that the host writes after the retirement stay.
    std::fill(to.begin(), to.end(), std::byte{0x11});
    const LaunchId again = session.Transfer(
        {.to = to.data(), .from = from.data(), .bytes = bytes, .progress = record.get()});
    session.AwaitRetired(again);
    EXPECT_TRUE(std::all_of(to.begin(), to.end(),
                            [](std::byte value) { return value == std::byte{0x11}; }));
  }
}

// Parts end inside chunks and span several; parts without memory are zeros, and are dropped.
TEST_P(DeviceConformance, ACopyGathersAndScattersTheHostSide) {
  const auto device = Create();
  Session session(*device);
  const std::vector<std::size_t> sizes = {1,   3 * kCopyChunkBytes / 2, 0, 77, 2 * kCopyChunkBytes,
                                          500, kCopyChunkBytes - 5};
  std::size_t bytes = 0;
  for (const std::size_t size : sizes) bytes += size;
  const Result<Buffer> buffer = device->Allocate(bytes, MemoryKind::kDevice);
  ASSERT_TRUE(buffer) << buffer.error().message;
  std::vector<std::vector<std::byte>> from, to;
  std::vector<HostPart> sources, targets;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::vector<std::byte>& source = from.emplace_back(sizes[i]);
    for (std::size_t k = 0; k < source.size(); ++k) {
      source[k] = static_cast<std::byte>(k * 7 + i + 1);
    }
    to.emplace_back(sizes[i], std::byte{0xee});
    sources.push_back({i == 3 ? nullptr : source.data(), sizes[i]});
    targets.push_back({i == 5 ? nullptr : to.back().data(), sizes[i]});
  }
  Record gathered(CopyBlocks(bytes)), scattered(CopyBlocks(bytes));
  const Dep dep = gathered.AllDone();
  session.Transfer(
      {.to = buffer->data(), .bytes = bytes, .parts = sources, .progress = gathered.get()});
  session.Transfer({.from = buffer->data(),
                    .bytes = bytes,
                    .parts = targets,
                    .progress = scattered.get(),
                    .deps = {&dep, 1}});
  session.AwaitAllRetired();
  std::fill(from[3].begin(), from[3].end(), std::byte{0});
  std::fill(from[5].begin(), from[5].end(), std::byte{0xee});
  EXPECT_EQ(to, from);
}

TEST_P(DeviceConformance, ACopyLeavesWithItsGuardOnlyBeforeItsFirstChunk) {
  const auto device = Create();
  Session session(*device);
  const GuardId guard = session.NewGuard();
  const KernelHandle gate = session.LoadGate();
  const KernelHandle count = session.Load(CountBody);
  std::vector<std::byte> from(5 * kCopyChunkBytes, std::byte{0x22}), to(from.size());
  Record copied(CopyBlocks(from.size()));
  std::uint32_t raised = 0;
  for (const StreamId stream : {kUnordered, session.NewStream()}) {
    SCOPED_TRACE(Raw(stream));
    std::fill(to.begin(), to.end(), std::byte{0x11});
    copied->Reset();
    GateArgs gate_args;
    CountArgs count_args;
    Record first(1), behind(1);
    const Dep dep = first.AllDone();
    const auto copy = [&] {
      return Copy{.stream = stream,
                  .to = to.data(),
                  .from = from.data(),
                  .bytes = from.size(),
                  .progress = copied.get(),
                  .deps = {&dep, 1},
                  .guards = {session.On(guard, raised)}};
    };
    session.Submit(Launch{.kernel = gate, .args = &gate_args, .progress = first.get()});
    const LaunchId revoked = session.Transfer(copy());
    const LaunchId next = session.Submit(
        Launch{.kernel = count, .args = &count_args, .progress = behind.get()}, {.stream = stream});
    session.Raise(guard, ++raised);
    session.AwaitRetired(revoked);
    session.AwaitRetired(next);  // the revoked copy does not hold it up
    EXPECT_FALSE(first->Complete());
    gate_args.open = true;
    session.AwaitAllRetired();
    EXPECT_FALSE(session.Placed(revoked) || session.Complete(revoked));
    EXPECT_EQ(copied->done(), 0u);
    EXPECT_TRUE(std::all_of(to.begin(), to.end(),
                            [](std::byte value) { return value == std::byte{0x11}; }));
    // Submit again, and raise after the copy has begun: all of it is copied.
    const LaunchId again = session.Transfer(copy());
    session.PollUntil([&] { return session.Placed(again); });
    session.Raise(guard, ++raised);
    session.AwaitAllRetired();
    EXPECT_TRUE(session.Complete(again));
    EXPECT_EQ(to, from);
    // Already raised: it never begins.
    copied->Reset();
    std::fill(to.begin(), to.end(), std::byte{0x11});
    Copy late = copy();
    late.guards[1] = session.On(guard, raised - 1);
    session.AwaitRetired(session.Transfer(late));
    EXPECT_EQ(to.back(), std::byte{0x11});
  }
}

TEST_P(DeviceConformance, WhatWasUploadedIsThereForACopy) {
  const auto device = Create();
  Session session(*device);
  std::vector<std::byte> from(100'003), to(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i % 251);
  const Result<Buffer> buffer = device->Allocate(from.size(), MemoryKind::kDevice);
  ASSERT_TRUE(buffer) << buffer.error().message;
  ASSERT_TRUE(device->Upload(buffer->data(), from));
  from[7] = std::byte{0x77};
  ASSERT_TRUE(device->Upload(buffer->data() + 7, std::span(from).subspan(7, 1)));
  Record record(CopyBlocks(from.size()));
  session.AwaitRetired(session.Transfer(
      {.to = to.data(), .from = buffer->data(), .bytes = to.size(), .progress = record.get()}));
  EXPECT_EQ(to, from);
}

TEST_P(DeviceConformance, ATransferWaitsForWhatProducesItsSource) {
  const auto device = Create();
  Session session(*device);
  const KernelHandle mix = session.Load(MixBody);
  const StreamId stream = session.NewStream();
  const int rounds = device->info().blocks_on_host ? 50 : 6;  // an emulated block takes long
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::uint64_t> y(20'000), result(20'000);
    MixArgs args{.y = y.data()};
    Record kernel(static_cast<std::uint32_t>(y.size()));
    Record copied(CopyBlocks(y.size() * sizeof(y[0])));
    const Dep dep = kernel.AllDone();
    session.Transfer({.stream = round % 2 == 0 ? kUnordered : stream,
                      .to = result.data(),
                      .from = y.data(),
                      .bytes = y.size() * sizeof(y[0]),
                      .progress = copied.get(),
                      .deps = {&dep, 1}});
    session.Submit(Launch{.kernel = mix, .args = &args, .progress = kernel.get()});
    session.AwaitAllRetired();
    EXPECT_EQ(y, result);
  }
}

TEST_P(DeviceConformance, AFullDeviceRefusesAndRecovers) {
  const auto device = Create();
  Session session(*device);
  const KernelHandle count = session.Load(CountBody);
  const GuardId guard = session.NewGuard();
  CountArgs args;
  Record never(1), record(1);
  const Dep dep = never.AllDone();
  Launch launch{.kernel = count, .args = &args, .progress = record.get(), .deps = {&dep, 1}};
  for (std::uint32_t epoch = 0; epoch < 3; ++epoch) {
    launch.guards[0] = session.On(guard, epoch);
    LaunchId id{};
    std::uint32_t accepted = 0;
    while (session.TrySubmit(launch, id) == SubmitResult::kOk) {
      ASSERT_LE(++accepted, device->info().max_launches);
    }
    EXPECT_EQ(accepted, device->info().max_launches);
    EXPECT_EQ(session.TrySubmit(launch, id), SubmitResult::kFull);
    Record copied(1);
    EXPECT_EQ(device->Transfer({.id = LaunchId{1u << 30}, .progress = copied.get()}),
              SubmitResult::kFull);
    session.Raise(guard, epoch + 1);
    session.AwaitAllRetired();
    EXPECT_EQ(copied->done(), 0u) << "a refused transfer ran";
  }
  EXPECT_EQ(args.runs.load(), 0);
}

TEST_P(DeviceConformance, NoEventIsLostWhenNobodyPolls) {
  const auto device = Create();
  Session session(*device);
  const KernelHandle count = session.Load(CountBody);
  CountArgs args;
  for (int round = 0; round < 2; ++round) {
    std::vector<std::unique_ptr<Record>> records;
    std::vector<LaunchId> ids;
    // Launches come and go, but their events stay. Submitted one at a time: when the device refuses
    // for long, it is full of events, not of launches.
    const auto submit = [&](const Launch& launch) {
      LaunchId id{};
      if (session.TrySubmit(launch, id) != SubmitResult::kOk) return false;
      ids.push_back(id);
      return true;
    };
    for (bool accepted = true; accepted;) {
      ASSERT_LT(ids.size(), 100'000u) << "an unbounded number of launches was accepted";
      records.push_back(std::make_unique<Record>(1));
      const Launch launch{.kernel = count, .args = &args, .progress = records.back()->get()};
      accepted = submit(launch);
      if (accepted) session.Await([&] { return (*records.back())->Complete(); });
    }
    // Where launches retire later, they count until they are polled.
    EXPECT_GE(ids.size(), device->info().max_launches + (GetParam().prompt ? 1 : 0));
    session.AwaitAllRetired();
    for (const LaunchId id : ids) EXPECT_TRUE(session.Complete(id) && session.Retired(id));
  }
}

TEST_P(DeviceConformance, WaitEndsAtItsTimeAndByWake) {
  const auto device = Create();
  const TimePoint until = device->Now() + std::chrono::milliseconds(5);
  device->Wait(until);
  EXPECT_GE(device->Now(), until);
  const std::jthread waker([&] { device->Wake(); });
  device->Wait(kNoDeadline);
}

TEST_P(DeviceConformance, MemoryIsAlignedBoundedAndComesBack) {
  constexpr std::size_t kLimit = std::size_t{64} << 20;
  const auto device = Create({.memory_limit_bytes = kLimit});
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{100}, std::size_t{5} << 20}) {
    const Result<Buffer> buffer = device->Allocate(bytes, MemoryKind::kDevice);
    ASSERT_TRUE(buffer.has_value());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->data()) % 64, 0u);
    EXPECT_EQ(buffer->size(), bytes);
    if (device->info().memory_on_host) {
      std::fill_n(buffer->data(), bytes, std::byte{1});
    } else {
      EXPECT_TRUE(device->Upload(buffer->data(), std::vector<std::byte>(bytes)));
    }
  }
  for (int i = 0; i < 3; ++i) {
    const Result<Buffer> most = device->Allocate(kLimit - (1 << 20), MemoryKind::kDevice);
    ASSERT_TRUE(most.has_value()) << "freed memory did not come back";
    const Result<Buffer> more = device->Allocate(2 << 20, MemoryKind::kDevice);
    ASSERT_FALSE(more.has_value());
    EXPECT_EQ(more.error().code, ErrorCode::kResourceExhausted);
    EXPECT_NE(more.error().message.find(std::to_string(2 << 20)), std::string::npos)
        << more.error().message;
  }
}

TEST_P(DeviceConformance, EveryUnitHasTheScratchOfTheLargestKernel) {
  struct ScratchArgs {
    std::size_t bytes;
    std::atomic<int>* wrong;
  };
  const Body body = [](const void* args, std::uint32_t block, BlockContext& ctx) {
    const auto& want = *static_cast<const ScratchArgs*>(args);
    const std::span<std::byte> scratch = ctx.scratch();
    const bool aligned = reinterpret_cast<std::uintptr_t>(scratch.data()) % 64 == 0;
    if (scratch.size() < want.bytes || (want.bytes != 0 && !aligned)) {
      want.wrong->fetch_add(1);
      return true;
    }
    // Private: no other block writes it meanwhile.
    std::fill_n(scratch.begin(), want.bytes, static_cast<std::byte>(block));
    Spin(std::chrono::microseconds(5));
    if (std::count(scratch.begin(), scratch.begin() + static_cast<std::ptrdiff_t>(want.bytes),
                   static_cast<std::byte>(block)) != static_cast<std::ptrdiff_t>(want.bytes)) {
      want.wrong->fetch_add(1);
    }
    return true;
  };
  const auto device = Create();
  if (!device->info().computes) GTEST_SKIP() << "no body runs on it, for ever";
  if (!device->info().blocks_on_host) GTEST_SKIP() << "scratch memory is of host threads, for ever";
  Session session(*device);
  std::atomic<int> wrong{0};
  std::vector<std::unique_ptr<Record>> records;
  std::vector<std::unique_ptr<ScratchArgs>> args;
  // Kernels are loaded while others run.
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{100}, std::size_t{10'000},
                                  std::size_t{300'000}, std::size_t{64}}) {
    args.push_back(std::make_unique<ScratchArgs>(ScratchArgs{bytes, &wrong}));
    records.push_back(std::make_unique<Record>(40));
    session.Submit(Launch{.kernel = session.Load(body, {.scratch_bytes = bytes}),
                          .args = args.back().get(),
                          .progress = records.back()->get()});
  }
  session.AwaitAllRetired();
  EXPECT_EQ(wrong.load(), 0);
}

TEST_P(DeviceConformance, StreamsGuardsAndKernelsAreBounded) {
  const auto device = Create();
  for (std::uint32_t i = 0; i < device->info().max_streams; ++i) {
    const Result<StreamId> stream = device->CreateStream({"s"});
    ASSERT_TRUE(stream.has_value());
    EXPECT_NE(*stream, kUnordered);
  }
  const Result<StreamId> stream = device->CreateStream({"the last"});
  ASSERT_FALSE(stream.has_value());
  EXPECT_EQ(stream.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(stream.error().message.find("the last"), std::string::npos);
  for (std::uint32_t i = 0; i < device->info().max_guards; ++i) {
    const Result<GuardId> guard = device->CreateGuard();
    ASSERT_TRUE(guard.has_value());
    EXPECT_EQ(device->GuardWord(*guard)->load(), 0u);
  }
  EXPECT_EQ(device->CreateGuard().error().code, ErrorCode::kResourceExhausted);
  const Result<KernelHandle> kernel = device->Load({"empty", nullptr}, {});
  ASSERT_FALSE(kernel.has_value());
  EXPECT_EQ(kernel.error().code, ErrorCode::kInvalidArgument);
}

// Models and shapes come and go for as long as a server runs, and their kernels are the same.
TEST_P(DeviceConformance, LoadingAKernelAgainTakesNoRoom) {
  const auto device = Create();
  Session session(*device);
  const KernelHandle count = session.Load(CountBody);
  const KernelHandle mix = session.Load(MixBody, {.block = std::chrono::microseconds(20)});
  EXPECT_NE(count, mix);
  EXPECT_EQ(device->LoadedKernels(), 2u);
  constexpr int kTimes = (1 << 16) + 1;  // more than there are handles
  for (int i = 0; i < kTimes; ++i) ASSERT_EQ(session.Load(CountBody), count);
  EXPECT_EQ(session.Load(MixBody, {.block = std::chrono::microseconds(20)}), mix);
  EXPECT_EQ(device->LoadedKernels(), 2u);
  CountArgs args;
  Record record(3);
  session.Submit(Launch{.kernel = count, .args = &args, .progress = record.get()});
  session.AwaitAllRetired();
  EXPECT_TRUE(record->Complete());
}

// Times() is exact at any moment, also while units run or wait. Upper bounds would depend on other
// programs on the machine; sums and lower bounds do not.
TEST_P(DeviceConformance, UnitTimesAccountForBodiesAndIdleness) {
  const auto device = Create({.units = 2});
  Session session(*device);
  const KernelHandle gate_kernel = session.LoadGate();
  GateArgs gate;
  Record record(1);
  const UnitTimes before = device->Times();
  session.Submit(Launch{.kernel = gate_kernel, .args = &gate, .progress = record.get()});
  ASSERT_TRUE(session.Await([&] { return gate.waiting.load() == 1; }));
  // The other unit may be late to start.
  const Nanoseconds idle = device->Times().idle;
  ASSERT_TRUE(session.Await([&] { return device->Times().idle > idle; }));
  const UnitTimes running = device->Times();
  const TimePoint begin = device->Now();
  device->SetWorkHeld(true);
  session.Pass(std::chrono::milliseconds(20));
  device->SetWorkHeld(false);
  const TimePoint end = device->Now();
  const UnitTimes after = device->Times();
  EXPECT_GE(after.busy - running.busy, end - begin);
  EXPECT_GE(after.idle - running.idle, (end - begin) / 2);
  EXPECT_LE(after.idle_while_ready - running.idle_while_ready, after.idle - running.idle);
  EXPECT_GE(after.idle_while_ready - running.idle_while_ready, (end - begin) / 2);
  EXPECT_EQ(running.idle_while_ready, before.idle_while_ready);
  gate.open.store(true);
  session.AwaitAllRetired();
  session.Pass(std::chrono::milliseconds(2));
  const UnitTimes last = device->Times();
  EXPECT_EQ(last.idle_while_ready, after.idle_while_ready);
  EXPECT_EQ(device->Times().busy, last.busy);
}

}  // namespace
}  // namespace lagoon::conformance
