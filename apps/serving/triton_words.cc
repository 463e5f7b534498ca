#include "apps/serving/triton_words.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "apps/command.h"
#include "base/log.h"

namespace lagoon {
namespace {

struct TritonWord {
  const char* name;
  const char* instead;
};

// Answers are the same without them.
constexpr TritonWord kWithoutEffect[] = {
    {"--backend-directory", "there are no backends to load; --engine names a library"},
    {"--buffer-manager-thread-count", "--workers is the number of threads that compute"},
    {"--cache-config", "answers are not cached"},
    {"--cache-directory", "answers are not cached"},
    {"--cuda-memory-pool-byte-size", "memory of a GPU is allocated for each model at load"},
    {"--disable-auto-complete-config", "what config.pbtxt leaves out is read from the model"},
    {"--grpc-infer-allocation-pool-size", "messages are reused"},
    {"--http-thread-count", "the number of threads follows from the cores"},
    {"--min-supported-compute-capability", "a GPU that cannot be used is refused"},
    {"--model-load-thread-count", "models are loaded one after the other"},
    {"--pinned-memory-pool-byte-size", "requests are read where a GPU copies from"},
    {"--strict-model-config", "what config.pbtxt leaves out is read from the model"},
};

constexpr TritonWord kRefused[] = {
    {"--backend-config", "write parameters of a model into its config.pbtxt"},
    {"--grpc-restricted-protocol", "a proxy can restrict paths; see docs/guide/security.md"},
    {"--grpc-use-ssl", "there is no TLS; a proxy can add it"},
    {"--grpc-use-ssl-mutual", "there is no TLS; a proxy can add it"},
    {"--host-policy", "--workers and --device say what runs where"},
    {"--http-restricted-api", "a proxy can restrict paths; see docs/guide/security.md"},
    {"--log-error", "write --log-level off"},
    {"--log-file", "redirect the standard error"},
    {"--log-info", "write --log-level warning"},
    {"--log-warning", "write --log-level error"},
    {"--metrics-config", "there are no metrics to configure"},
    {"--rate-limit", "the scheduler decides what runs: --scheduler"},
    {"--rate-limit-resource", "the scheduler decides what runs: --scheduler"},
};

// Each port is always served.
constexpr const char* kAllowed[] = {"--allow-http", "--allow-grpc", "--allow-metrics",
                                    "--allow-cpu-metrics", "--allow-gpu-metrics"};

/// Calls `act` with the value when `name` is given, with or without one.
template <typename Act>
void AddHidden(CLI::App& command, const char* name, Act act) {
  command
      .add_option_function<std::vector<std::string>>(
          name,
          [act](const std::vector<std::string>& values) {
            act(values.empty() ? std::string() : values.back());
          })
      ->expected(0, 1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->group("");
}

}  // namespace

void AddTritonWords(CLI::App& command, ListenWords& words) {
  for (const TritonWord& word : kWithoutEffect) {
    AddHidden(command, word.name, [&word](const std::string&) {
      spdlog::warn("{} has no effect: {}", word.name, word.instead);
    });
  }
  for (const TritonWord& word : kRefused) {
    AddHidden(command, word.name, [&word](const std::string&) {
      Die(fmt::format("{}: an option of tritonserver that `lagoon serve` does not have: {}",
                      word.name, word.instead));
    });
  }
  for (const char* const name : kAllowed) {
    AddHidden(command, name, [name](const std::string& value) {
      if (value.empty() || value == "true" || value == "True" || value == "1") return;
      Die(
          fmt::format("{}: it cannot be {}: HTTP, gRPC and metrics are always served; leave their "
                      "ports to 127.0.0.1",
                      name, value));
    });
  }
  AddHidden(command, "--log-verbose", [&words](const std::string& value) {
    if (value != "0" && value != "false") words.log_level = "debug";
  });
}

}  // namespace lagoon
