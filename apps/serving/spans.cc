#include "apps/serving/spans.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "apps/command.h"
#include "base/log.h"

namespace lagoon {
namespace {

[[noreturn]] void RefuseTraceWord(std::string_view word, std::string_view why) {
  Die(fmt::format("--trace-config: {}: {}", word, why));
}

/// One setting, as "url=localhost:4318/v1/traces".
void TakeTraceSetting(std::string_view word, SpanWords& spans) {
  const std::size_t sign = word.find('=');
  if (sign == word.npos) RefuseTraceWord(word, "is not NAME=VALUE");
  const std::string_view name = word.substr(0, sign), value = word.substr(sign + 1);
  if (name == "mode") {
    if (value != "opentelemetry") {
      RefuseTraceWord(word, "mode is opentelemetry; --trace FILE writes a trace of the device");
    }
  } else if (name == "url") {
    spans.url = value;
  } else if (name == "rate") {
    const auto [end, error] =
        std::from_chars(value.data(), value.data() + value.size(), spans.rate);
    if (error != std::errc() || end != value.data() + value.size()) {
      RefuseTraceWord(word, "is not a number: one request of so many begins a trace");
    }
  } else if (name == "resource") {
    const std::size_t second = value.find('=');
    if (second == value.npos) RefuseTraceWord(word, "is not resource=KEY=VALUE");
    spans.resource.emplace_back(value.substr(0, second), value.substr(second + 1));
  } else if (name == "level") {
    if (value == "OFF") spans.off = true;
    if (value != "OFF" && value != "TIMESTAMPS") {
      RefuseTraceWord(word, "level is TIMESTAMPS or OFF: spans have times, and no tensors");
    }
  } else if (name.starts_with("bsp_")) {
    spdlog::warn("--trace-config {} has no effect: the queue of spans has a fixed size", word);
  } else {
    RefuseTraceWord(word, "the settings are mode, url, rate, resource and level");
  }
}

/// "mode=opentelemetry", "opentelemetry,url=localhost:4318/v1/traces", or several with commas.
void TakeTraceWord(std::string_view word, SpanWords& spans) {
  while (!word.empty()) {
    const std::size_t comma = word.find(',');
    const std::string_view part = word.substr(0, comma);
    if (part == "triton") RefuseTraceWord(word, "write --trace FILE, or opentelemetry,url=URL");
    if (part != "opentelemetry") TakeTraceSetting(part, spans);
    word = comma == word.npos ? std::string_view() : word.substr(comma + 1);
  }
}

}  // namespace

void AddSpans(CLI::App& command, SpanWords& spans) {
  command.add_option("--otlp", spans.url,
                     "Send spans of requests to this collector of OpenTelemetry, as "
                     "localhost:4318/v1/traces");
  command
      .add_option("--otlp-rate", spans.rate,
                  "N: a trace begins with every Nth request; 0: with none. Requests whose clients "
                  "ask for spans (traceparent) are traced always")
      ->capture_default_str();
  command
      .add_option_function<std::vector<std::string>>(
          "--trace-config",
          [&spans](const std::vector<std::string>& words) {
            spans.asked = true;
            for (const std::string& word : words) TakeTraceWord(word, spans);
          })
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group("");
}

std::unique_ptr<SpanExporter> OpenSpans(const SpanWords& spans) {
  if (spans.off || (spans.url.empty() && !spans.asked)) return nullptr;
  if (spans.url.empty()) {
    Die("--trace-config: there is no collector: write --trace-config opentelemetry,url=URL, or "
        "--trace FILE for a trace of the device");
  }
  Result<CollectorUrl> url = ParseCollectorUrl(spans.url);
  if (!url) Die("--otlp: " + url.error().message);
  SpanExporter::Options options;
  options.url = *std::move(url);
  options.resource = spans.resource;
  return std::make_unique<SpanExporter>(std::move(options));
}

}  // namespace lagoon
