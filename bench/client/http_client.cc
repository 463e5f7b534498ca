#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

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
  }

  Status Prepare(std::span<const InputTensor> inputs) override {
    Json json = {{"inputs", Json::array()},
                 {"parameters", {{"binary_data_output", true}, {"lagoon_stages", true}}}};
    std::size_t bytes = 0;
    for (const InputTensor& input : inputs) {
      json["inputs"].push_back({{"name", input.name},
                                {"datatype", OipName(input.type)},
                                {"shape", input.dims},
                                {"parameters", {{"binary_data_size", input.data.size()}}}});
      bytes += input.data.size();
    }
    for (const std::string& output : target_.outputs) json["outputs"].push_back({{"name", output}});
    const std::string text = DumpJson(json);
    request_ = "POST /v2/models/" + target_.model + "/infer HTTP/1.1\r\nHost: " + target_.address +
               "\r\nContent-Type: application/octet-stream\r\nInference-Header-Content-Length: " +
               std::to_string(text.size()) +
               "\r\nContent-Length: " + std::to_string(text.size() + bytes) + "\r\n\r\n" + text;
    for (const InputTensor& input : inputs) {
      request_.append(reinterpret_cast<const char*>(input.data.data()), input.data.size());
    }
    return {};
  }

  Result<Timing> Infer() override {
    try {
      const TimePoint begin = Now();
      asio::write(socket_, asio::buffer(request_));
      http::response_parser<http::buffer_body> parser;
      parser.body_limit(std::numeric_limits<std::uint64_t>::max());
      http::read_header(socket_, buffer_, parser);
      ReadBody(parser.content_length().value());
      const http::response<http::buffer_body>& response = parser.get();
      Timing timing;
      timing.total_us = ToMicroseconds(Now() - begin);
      if (response.result() != http::status::ok) return Fail(ErrorCode::kInternal, body_);
      const std::string length(response["Inference-Header-Content-Length"]);
      const std::size_t header = length.empty() ? body_.size() : std::stoul(length);
      const Json json = Json::parse(std::string_view(body_).substr(0, header));
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
  // Straight into its place, which is used again: the client must not cost more than the server.
  void ReadBody(std::size_t bytes) {
    body_.resize(bytes);
    const std::size_t ahead = asio::buffer_copy(asio::buffer(body_), buffer_.data());
    buffer_.consume(ahead);
    asio::read(socket_, asio::buffer(body_.data() + ahead, bytes - ahead));
  }

  ClientTarget target_;
  std::string request_;
  asio::io_context context_;
  Tcp::socket socket_{context_};
  boost::beast::flat_buffer buffer_;
  std::string body_;
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
