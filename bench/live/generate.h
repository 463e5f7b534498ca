#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bench/report/report.h"

namespace lagoon::bench {

struct GenerateOptions {
  std::vector<std::pair<std::string, std::string>> models;  // names and files
  std::string program;                                      // the library of examples/jobs/chat.cc
  std::string genai;  // a Python with onnxruntime-genai; empty: that is not measured
  std::string genai_worker = "bench/comparators/genai_worker.py";
  std::string scheduler = "lagoon";
  std::uint32_t workers = 0;  // 0: one per core
  std::int64_t rows = 2;      // requests that decode together
  std::int64_t context = 8192;
  int prompt = 8;           // tokens in the prompt of a measured request
  int tokens = 128;         // of such an answer
  std::int64_t chunk = 64;  // tokens of a prompt that are read at once; 0: one, by the decoder
  int background = 8000;    // tokens of a best-effort prompt beside real-time requests
  int requests = 25;        // real-time requests of a window
  int windows = 8;
  std::uint32_t seed = 1;
};

/// Decoders of texts (models/corpus/genai.py) behind the job program `chat`, at batch 1 and with as
/// many clients as decode together. The program is real-time; the prompt beside it is best-effort.
/// Metrics, for a model M and N clients:
///   read_gbps                        what all cores read from memory together, measured in turns
///                                    with the tokens
///   bytes_per_token.M                weights, and keys and values in use, that a token reads
///   tokens_per_second.M.cN           of all clients, from the first to the last token
///   tokens_of_bound.M                tokens a second of one client over read_gbps divided by
///                                    bytes_per_token; target: at least 0.85
///   tokens_per_second.M.genai        onnxruntime-genai on the same file, with as many threads
///   tokens_ratio_vs_genai.M          of one client
///   prompt_tokens_per_second.M       tokens of a long prompt (at most 512) until its first token
///   first_token_ms_p50.M.alone, .beside, _p99   of a real-time prompt alone, and beside a
///                                    best-effort prompt that is being read
///   first_token_ratio_p50.M          beside over alone
///   first_token_ratio_p99.M          the same of the p99; target: at most 1.1
Status RunGenerate(const GenerateOptions& options, Report& report);

}  // namespace lagoon::bench
