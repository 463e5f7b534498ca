#include "server/telemetry/traced_core.h"

#include <exception>
#include <memory>
#include <random>
#include <span>
#include <utility>

#include "base/log.h"
#include "serving/config/model_config.pb.h"

namespace lagoon {
namespace {

void Put(std::uint64_t value, std::span<std::uint8_t> bytes) {
  for (std::uint8_t& byte : bytes) {
    byte = static_cast<std::uint8_t>(value >> 56);
    value <<= 8;
  }
}

}  // namespace

std::uint64_t TracedCore::Seed() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random();
}

/// SplitMix64 (Steele, Lea, Flood 2014).
std::uint64_t TracedCore::NewId() {
  std::uint64_t z = draws_.fetch_add(0x9e3779b97f4a7c15, std::memory_order_relaxed);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  // The first byte is never 0, so that no id of a span below is (SpansJson).
  return (z ^ (z >> 31)) | std::uint64_t{1} << 63;
}

bool TracedCore::Wanted(const TraceContext& context) {
  if (context.any()) return context.sampled;
  return rate_ > 0 && requests_.fetch_add(1, std::memory_order_relaxed) % rate_ == 0;
}

Result<inference::ModelConfig> TracedCore::Config(const std::string& model,
                                                  const std::string& version) const {
  return core_.Config(model, version);
}

RequestHandle TracedCore::Infer(InferRequest request, InferCallback callback) {
  if (!Wanted(request.trace)) return core_.Infer(std::move(request), std::move(callback));
  if (request.arrival == TimePoint{}) request.arrival = Now();
  auto traced = std::make_shared<TracedRequest>();
  Put(NewId(), traced->span);
  if (!request.trace.any()) {
    Put(NewId(), std::span(request.trace.trace).first(8));
    Put(NewId(), std::span(request.trace.trace).last(8));
    request.trace.sampled = true;
  }
  traced->context = request.trace;
  traced->model = request.model;
  traced->version = request.version;
  traced->id = request.id;
  traced->arrival = request.arrival;
  request.trace.parent = traced->span;  // of what other servers do for the request
  request.end = std::make_shared<RequestEnd>();
  auto ended = [&exporter = exporter_, traced, end = request.end,
                callback = std::move(callback)](Result<InferResponse> result) {
    traced->ended = Now();
    traced->end = *end;
    if (!result) {
      traced->error = result.error().message;
    } else {
      traced->version = result->version;
    }
    callback(std::move(result));
    try {
      exporter.Add(std::move(*traced));
    } catch (const std::exception& error) {
      spdlog::warn("a request has no span: {}", error.what());
    }
  };
  return core_.Infer(std::move(request), std::move(ended));
}

}  // namespace lagoon
