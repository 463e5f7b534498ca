#include "bench/reload/exchange.h"

#include <fmt/format.h>
#include <grpcpp/create_channel.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"

namespace lagoon::bench {
namespace {

using Json = nlohmann::json;

// Loads have a low priority: under overload they take their time.
constexpr std::chrono::minutes kLoadLimit{5};

/// What an answer of any protocol says.
struct Said {
  std::string id;
  std::vector<float> values;
};

std::vector<float> FloatsOf(std::string_view bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

Exchanged Problem(Fate fate, std::string problem) { return {fate, std::move(problem), {}, 0}; }

Exchanged Judge(const SoakSample& sample, const RequestWords& words, Said said) {
  if (said.id != words.id) {
    return Problem(Fate::kDoubled,
                   fmt::format("request {} got the answer of {}", words.id, said.id));
  }
  Exchanged exchanged{Fate::kRight, {}, std::move(said.values), 0};
  if (sample.expected.empty()) return exchanged;
  if (exchanged.answer.size() != sample.expected.size()) {
    return Problem(Fate::kWrong, fmt::format("{}: {} numbers, not {}", sample.model,
                                             exchanged.answer.size(), sample.expected.size()));
  }
  float largest = 0, difference = 0;
  for (std::size_t i = 0; i < sample.expected.size(); ++i) {
    largest = std::max(largest, std::abs(sample.expected[i]));
    difference = std::max(difference, std::abs(exchanged.answer[i] - sample.expected[i]));
    if (std::isnan(exchanged.answer[i])) difference = HUGE_VALF;
  }
  exchanged.error = difference / std::max(largest, 1e-6F);
  if (exchanged.error <= kMostError) return exchanged;
  return Problem(Fate::kWrong, fmt::format("{}: relative error {}", sample.model, exchanged.error));
}

/// `refused`, `expired`: what the status says.
Exchanged JudgeError(const RequestWords& words, bool refused, bool expired, std::string what) {
  if (refused) return {Fate::kRefused, {}, {}, 0};
  if (expired && words.timeout_us > 0) return {Fate::kExpired, {}, {}, 0};
  return Problem(Fate::kWrong, std::move(what));
}

std::string HttpRequestOf(const SoakSample& sample, const RequestWords& words) {
  const bool binary = words.protocol == Protocol::kHttpBinary;
  Json input = {{"name", "x"}, {"datatype", "FP32"}, {"shape", sample.dims}};
  if (binary) {
    input["parameters"] = {{"binary_data_size", sample.input.size() * sizeof(float)}};
  } else {
    input["data"] = sample.input;
  }
  Json parameters = {{"binary_data_output", binary}};
  if (words.timeout_us > 0) parameters["timeout"] = words.timeout_us;
  if (words.priority > 0) parameters["priority"] = words.priority;
  std::string body = DumpJson(
      Json{{"id", words.id}, {"parameters", parameters}, {"inputs", Json::array({input})}});
  const std::size_t json_bytes = body.size();
  if (binary) {
    body.append(reinterpret_cast<const char*>(sample.input.data()),
                sample.input.size() * sizeof(float));
  }
  return HttpPost("/v2/models/" + sample.model + "/infer", body, json_bytes);
}

std::optional<Said> ReadHttp(const HttpAnswer& answer) {
  const Json json = Json::parse(
      answer.body.begin(), answer.body.begin() + static_cast<std::ptrdiff_t>(answer.json_bytes),
      nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json["id"].is_string() || json["outputs"].size() != 1) return {};
  Said said{json["id"].get<std::string>(), {}};
  if (answer.json_bytes < answer.body.size()) {
    said.values = FloatsOf(std::string_view(answer.body).substr(answer.json_bytes));
  } else if (json["outputs"][0]["data"].is_array()) {
    said.values = json["outputs"][0]["data"].get<std::vector<float>>();
  }
  return said;
}

inference::ModelInferRequest GrpcRequestOf(const SoakSample& sample, const RequestWords& words) {
  inference::ModelInferRequest request;
  request.set_model_name(sample.model);
  request.set_id(words.id);
  auto& parameters = *request.mutable_parameters();
  if (words.timeout_us > 0) parameters["timeout"].set_uint64_param(words.timeout_us);
  if (words.priority > 0) parameters["priority"].set_uint64_param(words.priority);
  auto& input = *request.add_inputs();
  input.set_name("x");
  input.set_datatype("FP32");
  input.mutable_shape()->Add(sample.dims.begin(), sample.dims.end());
  request.add_raw_input_contents(sample.input.data(), sample.input.size() * sizeof(float));
  return request;
}

}  // namespace

ExchangeClient::ExchangeClient(int http_port, int grpc_port) : http_port_(http_port) {
  grpc::ChannelArguments own;
  own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  own.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  own.SetMaxReceiveMessageSize(-1);
  grpc_ = inference::GRPCInferenceService::NewStub(grpc::CreateCustomChannel(
      fmt::format("127.0.0.1:{}", grpc_port), grpc::InsecureChannelCredentials(), own));
}

Exchanged ExchangeClient::Ask(const SoakSample& sample, const RequestWords& words) {
  return words.protocol == Protocol::kGrpc ? AskGrpc(sample, words) : AskHttp(sample, words);
}

Result<HttpAnswer> ExchangeClient::Exchange(const std::string& request, Nanoseconds limit) {
  if (!http_) {
    LAGOON_ASSIGN_OR_RETURN(http_, HttpConnection::Connect(http_port_));
  }
  const Status sent = http_->Send(request);
  Result<HttpAnswer> answer = sent ? http_->Receive(limit) : tl::unexpected<Error>(sent.error());
  if (!answer || answer->closes) http_.reset();
  return answer;
}

Exchanged ExchangeClient::AskHttp(const SoakSample& sample, const RequestWords& words) {
  const Result<HttpAnswer> answer =
      Exchange(HttpRequestOf(sample, words), words.leaves_after.value_or(kAnswerLimit));
  if (!answer) {
    const bool left = words.leaves_after && answer.error().code == ErrorCode::kDeadlineExceeded;
    return Problem(left ? Fate::kCancelled : Fate::kLost,
                   fmt::format("{} over HTTP: {}", sample.model, answer.error().message));
  }
  if (answer->status != 200) {
    return JudgeError(words, answer->status == 503, answer->status == 504,
                      fmt::format("{}: HTTP {}: {}", sample.model, answer->status, answer->body));
  }
  std::optional<Said> said = ReadHttp(*answer);
  if (said) return Judge(sample, words, *std::move(said));
  return Problem(Fate::kWrong, fmt::format("{}: no answer of the protocol", sample.model));
}

Exchanged ExchangeClient::AskGrpc(const SoakSample& sample, const RequestWords& words) {
  grpc::ClientContext context;
  const Nanoseconds limit = words.leaves_after.value_or(kAnswerLimit);
  const TimePoint until = Now() + limit;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::duration_cast<std::chrono::system_clock::duration>(limit));
  inference::ModelInferResponse response;
  const grpc::Status status = grpc_->ModelInfer(&context, GrpcRequestOf(sample, words), &response);
  const bool timed_out = status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
  // The server also sees the deadline of a client that leaves, and may be first to end the call.
  if (words.leaves_after && (timed_out || status.error_code() == grpc::StatusCode::CANCELLED)) {
    return {Fate::kCancelled, {}, {}, 0};
  }
  if (timed_out && Now() >= until) {
    return Problem(Fate::kLost, fmt::format("{} over gRPC: no answer", sample.model));
  }
  if (!status.ok()) {
    return JudgeError(words, status.error_code() == grpc::StatusCode::UNAVAILABLE, timed_out,
                      fmt::format("{}: gRPC {}: {}", sample.model,
                                  static_cast<int>(status.error_code()), status.error_message()));
  }
  if (response.raw_output_contents_size() != 1) {
    return Problem(Fate::kWrong, fmt::format("{}: no answer of the protocol", sample.model));
  }
  return Judge(sample, words, {response.id(), FloatsOf(response.raw_output_contents(0))});
}

Result<double> ExchangeClient::Pending() {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kAnswerLimit);
  inference::ModelStatisticsResponse response;
  const grpc::Status status = grpc_->ModelStatistics(&context, {}, &response);
  if (!status.ok()) {
    return Fail(ErrorCode::kInternal, "no statistics over gRPC: " + status.error_message());
  }
  double pending = 0;
  for (const auto& row : response.model_stats()) pending += static_cast<double>(row.pending());
  return pending;
}

int ExchangeClient::Post(const std::string& path) {
  const Result<HttpAnswer> answer = Exchange(HttpPost(path, "{}", 2), kLoadLimit);
  return answer ? answer->status : 0;
}

}  // namespace lagoon::bench
