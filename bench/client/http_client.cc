#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/time.h"
#include "bench/client/infer_client.h"

namespace lagoon::bench {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Tcp = asio::ip::tcp;
using Json = nlohmann::json;

constexpr std::string_view kStagePrefix = "lagoon_";
constexpr std::string_view kStageSuffix = "_us";

class HttpClient final : public InferClient {
 public:
  explicit HttpClient(const ClientTarget& target) : target_(target) {
    socket_.connect(
        {asio::ip::make_address(target.address), static_cast<std::uint16_t>(target.port)});
    socket_.set_option(Tcp::no_delay(true));
    const Json json = {
        {"inputs",
         {{{"name", target.input.name},
           {"datatype", "FP32"},
           {"shape", target.input.dims},
           {"parameters", {{"binary_data_size", target.input.bytes()}}}}}},
        {"outputs", {{{"name", target.output}, {"parameters", {{"binary_data", true}}}}}},
        {"parameters", {{"lagoon_stages", true}}}};
    json_ = DumpJson(json);
    head_ = "POST /v2/models/" + target.model + "/infer HTTP/1.1\r\nHost: " + target.address +
            "\r\nContent-Type: application/octet-stream\r\nInference-Header-Content-Length: " +
            std::to_string(json_.size()) +
            "\r\nContent-Length: " + std::to_string(json_.size() + target.input.bytes()) +
            "\r\n\r\n";
  }

  Status Prepare(std::span<const float> input) override {
    if (input.size_bytes() != target_.input.bytes()) {
      return Fail(ErrorCode::kInvalidArgument, "the input has the wrong size");
    }
    request_ = head_ + json_;
    request_.append(reinterpret_cast<const char*>(input.data()), input.size_bytes());
    return {};
  }

  Result<Timing> Infer() override {
    try {
      const TimePoint begin = Now();
      asio::write(socket_, asio::buffer(request_));
      http::response<http::string_body> response;
      http::read(socket_, buffer_, response);
      Timing timing;
      timing.total_us = ToMicroseconds(Now() - begin);
      if (response.result() != http::status::ok) return Fail(ErrorCode::kInternal, response.body());
      const std::string length(response["Inference-Header-Content-Length"]);
      const std::size_t header = length.empty() ? response.body().size() : std::stoul(length);
      const Json json = Json::parse(response.body().substr(0, header));
      const Json stages = json.value("parameters", Json::object());
      for (const auto& [key, value] : stages.items()) {
        if (!key.starts_with(kStagePrefix) || !key.ends_with(kStageSuffix)) continue;
        const std::size_t size = key.size() - kStagePrefix.size() - kStageSuffix.size();
        timing.stages_us[key.substr(kStagePrefix.size(), size)] = value.get<double>();
      }
      return timing;
    } catch (const std::exception& error) {
      return Fail(ErrorCode::kInternal, std::string("HTTP: ") + error.what());
    }
  }

 private:
  ClientTarget target_;
  std::string json_, head_, request_;
  asio::io_context context_;
  Tcp::socket socket_{context_};
  boost::beast::flat_buffer buffer_;
};

}  // namespace

Result<std::unique_ptr<InferClient>> ConnectHttp(const ClientTarget& target) {
  try {
    return std::unique_ptr<InferClient>(std::make_unique<HttpClient>(target));
  } catch (const std::exception& error) {
    return Fail(ErrorCode::kUnavailable, std::string("HTTP: ") + error.what());
  }
}

}  // namespace lagoon::bench
