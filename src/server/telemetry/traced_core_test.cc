#include "server/telemetry/traced_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "server/telemetry/traceparent.h"
#include "server/testing/fake_core.h"

namespace lagoon {
namespace {

using namespace std::chrono_literals;

class TracedCoreTest : public ::testing::Test {
 protected:
  InferRequest Twice(std::string_view traceparent = "") {
    InferRequest request;
    request.model = "twice";
    auto payload = std::make_shared<std::vector<float>>(4);
    request.inputs = {{"x", DataType::kFloat32, {1, 4}, std::as_bytes(std::span(*payload))}};
    request.payload = payload;
    request.trace = ParseTraceparent(traceparent);
    return request;
  }
  bool Ask(TracedCore& core, InferRequest request) {
    std::promise<bool> answered;
    core.Infer(std::move(request), [&](const Result<InferResponse>& result) {
      answered.set_value(result.has_value());
    });
    return answered.get_future().get();
  }
  /// How many of so many requests are traced. The collector is not there, so that each one counts
  /// as dropped.
  std::uint64_t Traced(std::uint64_t rate, int requests, std::string_view traceparent = "") {
    SpanExporter::Options options;
    options.url = {"127.0.0.1", 1, "/"};
    options.most_waiting = 0;
    SpanExporter exporter(options);
    TracedCore traced(core_, exporter, rate);
    for (int i = 0; i < requests; ++i) EXPECT_TRUE(Ask(traced, Twice(traceparent)));
    const TimePoint until = Now() + 1s;
    std::uint64_t dropped = 0;  // counted behind the callback
    while (Now() < until && dropped < static_cast<std::uint64_t>(requests)) {
      dropped = exporter.counts().dropped;
      if (dropped == static_cast<std::uint64_t>(requests)) break;
      std::this_thread::yield();
    }
    return dropped;
  }

  FakeCore core_;
};

constexpr const char* kSampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
constexpr const char* kNotSampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

TEST_F(TracedCoreTest, TracesOneInRate) {
  EXPECT_EQ(Traced(1, 4), 4u);
  EXPECT_EQ(Traced(3, 7), 3u);
  EXPECT_EQ(Traced(0, 3), 0u);
}

TEST_F(TracedCoreTest, AClientDecidesForItsOwnTrace) {
  EXPECT_EQ(Traced(0, 3, kSampled), 3u);
  EXPECT_EQ(Traced(1, 3, kNotSampled), 0u);
  EXPECT_EQ(Traced(1, 3, "00-broken"), 3u) << "as if there were none";
}

TEST_F(TracedCoreTest, WhatTheCoreBelowSendsOnIsPartOfTheSpan) {
  SpanExporter::Options options;
  options.url = {"127.0.0.1", 1, "/"};
  options.most_waiting = 0;
  SpanExporter exporter(options);
  TracedCore traced(core_, exporter, 0);
  ASSERT_TRUE(Ask(traced, Twice(kSampled)));
  const TraceContext below = core_.LastRequest().trace;
  EXPECT_EQ(below.trace, ParseTraceparent(kSampled).trace);
  EXPECT_NE(below.parent, ParseTraceparent(kSampled).parent);
  EXPECT_TRUE(below.sampled);
}

TEST_F(TracedCoreTest, AnErrorIsTracedAndPassedOn) {
  SpanExporter::Options options;
  options.url = {"127.0.0.1", 1, "/"};
  options.most_waiting = 0;
  SpanExporter exporter(options);
  TracedCore traced(core_, exporter, 1);
  core_.FailWith({ErrorCode::kInternal, "broken"});
  EXPECT_FALSE(Ask(traced, Twice()));
  const TimePoint until = Now() + 10s;
  while (exporter.counts().dropped == 0 && Now() < until) std::this_thread::yield();
  EXPECT_EQ(exporter.counts().dropped, 1u);
}

}  // namespace
}  // namespace lagoon
