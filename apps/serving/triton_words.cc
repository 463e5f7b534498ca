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
    {"--enable-peer-access", "a model lies on one device"},
    {"--grpc-http2-max-ping-strikes", "how connections are kept alive is fixed"},
    {"--grpc-http2-max-pings-without-data", "how connections are kept alive is fixed"},
    {"--grpc-http2-min-recv-ping-interval-without-data", "how connections are kept alive is fixed"},
    {"--grpc-infer-allocation-pool-size", "messages are reused"},
    {"--grpc-keepalive-permit-without-calls", "how connections are kept alive is fixed"},
    {"--grpc-keepalive-time", "how connections are kept alive is fixed"},
    {"--grpc-keepalive-timeout", "how connections are kept alive is fixed"},
    {"--http-thread-count", "the number of threads follows from the cores"},
    {"--id", "the server's name is 'lagoon'"},
    {"--log-format", "the log has one format"},
    {"--metrics-interval-ms", "metrics are as new as the request for them"},
    {"--min-supported-compute-capability", "a GPU that cannot be used is refused"},
    {"--model-load-retry-count", "a load is tried once"},
    {"--model-load-thread-count", "the number of threads follows from the cores"},
    {"--pinned-memory-pool-byte-size", "requests are read where a GPU copies from"},
    {"--repoagent-directory", "files are served as they lie in the repository"},
    {"--response-cache-byte-size", "answers are not cached"},
    {"--strict-model-config", "what config.pbtxt leaves out is read from the model"},
};

constexpr TritonWord kRefused[] = {
    {"--backend-config", "write parameters of a model into its config.pbtxt"},
    {"--grpc-header-forward-pattern", "headers do not reach models; clients send parameters"},
    {"--grpc-restricted-protocol", "a proxy can restrict paths; see docs/guide/security.md"},
    {"--host-policy", "--workers and --device say what runs where"},
    {"--http-header-forward-pattern", "headers do not reach models; clients send parameters"},
    {"--http-max-input-size", "write --max-body-mib"},
    {"--http-restricted-api", "a proxy can restrict paths; see docs/guide/security.md"},
    {"--log-file", "redirect the standard error"},
    {"--metrics-config", "there are no metrics to configure"},
    {"--model-config-name", "a model has one configuration, its config.pbtxt"},
    {"--rate-limit-resource", "the scheduler decides what runs: --scheduler"},
};

struct TritonSwitch {
  const char* name;
  bool is;  // what the server does; the other value is refused
  const char* instead;
};

constexpr const char* kAlwaysServed =
    "HTTP, gRPC and metrics are always served; leave their ports to 127.0.0.1";

constexpr TritonSwitch kSwitches[] = {
    {"--allow-cpu-metrics", true, kAlwaysServed},
    {"--allow-gpu-metrics", true, kAlwaysServed},
    {"--allow-grpc", true, kAlwaysServed},
    {"--allow-http", true, kAlwaysServed},
    {"--allow-metrics", true, kAlwaysServed},
    {"--allow-sagemaker", false, "there is no port for SageMaker"},
    {"--allow-vertex-ai", false, "there is no port for Vertex AI"},
    {"--grpc-use-ssl", false, "there is no TLS; a proxy can add it"},
    {"--grpc-use-ssl-mutual", false, "there is no TLS; a proxy can add it"},
    {"--log-error", true, "write --log-level off"},
    {"--log-info", true, "write --log-level warning"},
    {"--log-warning", true, "write --log-level error"},
    {"--model-namespacing", false, "models have one name each"},
    {"--reuse-grpc-port", false, "a port belongs to one server"},
    {"--reuse-http-port", false, "a port belongs to one server"},
};

/// As tritonserver reads it: no value means true, and so does any other than these.
bool IsTrue(const std::string& value) {
  return value != "0" && value != "false" && value != "False" && value != "FALSE";
}

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
  for (const TritonSwitch& word : kSwitches) {
    AddHidden(command, word.name, [&word](const std::string& value) {
      if (IsTrue(value) == word.is) return;
      Die(fmt::format("{}: it cannot be {}: {}", word.name, value.empty() ? "true" : value,
                      word.instead));
    });
  }
  AddHidden(command, "--rate-limit", [](const std::string& value) {
    if (value == "off") return;
    Die("--rate-limit: it cannot be other than off: the scheduler decides what runs: --scheduler");
  });
  AddHidden(command, "--log-verbose", [&words](const std::string& value) {
    if (value != "0" && value != "false") words.log_level = "debug";
  });
}

}  // namespace lagoon
