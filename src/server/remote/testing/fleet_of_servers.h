#pragma once

// For tests: fleets whose members are servers of this process.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "server/oip_json.h"
#include "server/remote/connect.h"
#include "server/testing/server_test_base.h"
#include "serving/fleet/fleet_core.h"
#include "serving/testing/fake_member.h"

namespace lagoon {

inline constexpr float kRow[] = {1, 2, 3, 4};

inline InferRequest AskFor(const std::string& model) {
  InferRequest request;
  request.model = model;
  request.arrival = Now();
  request.inputs = {{"x", DataType::kFloat32, {1, 4}, std::as_bytes(std::span(kRow))}};
  return request;
}

/// A server over a core of its own.
template <typename Core>
struct Member {
  template <typename... Words>
  explicit Member(Words... words) : core(words...) {
    Start(0);
  }
  void Start(int port) {
    ServerOptions options;
    options.http_port = options.metrics_port = 0;
    options.grpc_port = port;
    options.model_control = options.admin_on_http = true;
    auto started = Server::Start(core, options);
    EXPECT_TRUE(started) << started.error().message;
    server = *std::move(started);
    address = fmt::format("127.0.0.1:{}", server->grpc_port());
  }

  Core core;
  std::unique_ptr<Server> server;
  std::string address;
};
using Fake = Member<FakeCore>;
using Placed = Member<testing::FakeMember>;

class FleetOfServersTest : public ::testing::Test {
 protected:
  template <typename Condition>
  static bool Eventually(Condition condition) {
    const TimePoint until = Now() + std::chrono::seconds(20);
    while (Now() < until && !condition()) std::this_thread::yield();
    return condition();
  }
  /// A fleet without members. With `models` it decides what they load.
  void Open(std::vector<FleetModel> models = {}) {
    fleet_ = MakeFleet(std::move(models), version_);
    ASSERT_NE(fleet_, nullptr);
  }
  static std::unique_ptr<FleetCore> MakeFleet(std::vector<FleetModel> models = {},
                                              const std::string& version = "",
                                              PlacementKeeper::MakePlacer make_placer = {}) {
    RemoteOptions remote;
    remote.poll_period = std::chrono::milliseconds(10);
    remote.longest_reconnect = std::chrono::milliseconds(200);
    remote.version = version;
    remote.loads = !models.empty();
    FleetOptions options;
    options.connect = ConnectServers(remote);
    options.models = std::move(models);
    options.rules.period = std::chrono::milliseconds(1);
    options.rules.hold_down = Nanoseconds(0);
    options.rules.limit = std::chrono::minutes(1);
    options.rules.retry = std::chrono::milliseconds(1);
    if (make_placer) options.make_placer = std::move(make_placer);
    auto fleet = FleetCore::Make(std::move(options), {});
    EXPECT_TRUE(fleet) << fleet.error().message;
    return fleet ? *std::move(fleet) : nullptr;
  }
  /// A fleet of `a_` and `b_`, which have "twice".
  void OpenTwo() {
    Open();
    ASSERT_TRUE(fleet_->Join({"a", a_.address}));
    ASSERT_TRUE(fleet_->Join({"b", b_.address}));
    AwaitReplicas(2);
  }
  std::size_t Replicas() const {
    const FleetReport report = fleet_->ReadFleet();
    return static_cast<std::size_t>(
        std::ranges::count_if(report.replicas, [&](const FleetReplicaReport& replica) {
          return replica.state == FleetReplicaReport::State::kServing &&
                 report.devices[replica.device].ready;
        }));
  }
  void AwaitReplicas(std::size_t count) {
    ASSERT_TRUE(Eventually([&] { return Replicas() == count; })) << Replicas();
  }
  std::future<Result<InferResponse>> Infer(InferRequest request, RequestHandle* handle = nullptr) {
    auto promise = std::make_shared<std::promise<Result<InferResponse>>>();
    const RequestHandle own =
        fleet_->Infer(std::move(request), [promise](Result<InferResponse> result) {
          promise->set_value(std::move(result));  // throws if it is called twice
        });
    if (handle != nullptr) *handle = own;
    return promise->get_future();
  }
  static ErrorCode CodeOf(std::future<Result<InferResponse>> answer) {
    const auto result = answer.get();
    EXPECT_FALSE(result);
    return result ? ErrorCode::kInternal : result.error().code;
  }
  static std::uint64_t Served(const FakeCore& core) {
    return core.Statistics("", "")->front().success.count;
  }
  std::uint64_t Retries() const { return fleet_->ReadFleet().retries; }
  /// The member that has a request; waits for one.
  Fake& Holder() {
    EXPECT_TRUE(Eventually([&] { return a_.core.Pending() + b_.core.Pending() > 0; }));
    return a_.core.Pending() > 0 ? a_ : b_;
  }
  Fake& Other(const Fake& member) { return &member == &a_ ? b_ : a_; }
  void HoldBoth() {
    a_.core.Hold();
    b_.core.Hold();
  }
  FleetDeviceReport Device(const std::string& name) const { return DeviceOf(*fleet_, name); }
  static FleetDeviceReport DeviceOf(const FleetCore& fleet, const std::string& name) {
    for (FleetDeviceReport& device : fleet.ReadFleet().devices) {
      if (device.name == name) return device;
    }
    return {};
  }

  std::string version_{ServerVersion()};
  Fake a_, b_;
  std::unique_ptr<FleetCore> fleet_;
};

}  // namespace lagoon
