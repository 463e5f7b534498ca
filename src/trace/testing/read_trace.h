#pragma once

// A trace read back from its JSON, with the checks that every trace must pass.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "trace/json.h"

namespace lagoon::testing {

inline std::string TraceText(const TraceRecorder& recorder) {
  std::string text;
  WriteTraceJson(recorder, MakeTimeline(recorder), "test",
                 [&](std::string_view piece) { text += piece; });
  return text;
}

struct ReadTrace {
  struct Slice {
    std::int64_t begin = 0, end = 0;  // ns
    std::string row, name, category;
    nlohmann::json args;
    bool Is(const std::string& word) const {
      return ("," + category + ",").find("," + word + ",") != std::string::npos;
    }
  };

  explicit ReadTrace(const std::string& text) {
    const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded()) {
      ADD_FAILURE() << "not JSON: " << text.substr(0, 200);
      return;
    }
    other = json["otherData"];
    std::map<std::pair<int, int>, std::string> names;
    for (const auto& event : json["traceEvents"]) {
      const std::string phase = event["ph"];
      if (phase == "M" && event["name"] == "thread_name") {
        const bool is_new =
            names.try_emplace({event["pid"], event["tid"]}, event["args"]["name"]).second;
        EXPECT_TRUE(is_new) << event;
      }
      if (phase == "M") continue;
      if (phase == "C") {
        counters[event["name"]].emplace_back(Time(event["ts"]), event["args"]["value"]);
        continue;
      }
      Slice slice{.begin = Time(event["ts"]),
                  .row = names.at({event["pid"], event["tid"]}),
                  .name = event["name"],
                  .category = event["cat"],
                  .args = event["args"]};
      slice.end = slice.begin + (phase == "X" ? Time(event["dur"]) : 0);
      if (phase == "i") {
        instants.push_back(slice);
      } else if (event["pid"] == 2) {
        jobs.push_back(slice);
      } else {
        (slice.Is("block") ? blocks : on_units).push_back(slice);
      }
    }
  }

  /// A time as the viewer reads it: truncated to whole nanoseconds.
  static std::int64_t Time(double microseconds) {
    return static_cast<std::int64_t>(microseconds * 1000);
  }

  static std::pair<int, int> JobOf(const Slice& slice) {
    return {slice.args["run"], slice.args["job"]};
  }

  std::vector<Slice> BlocksOf(const std::string& model) const {
    std::vector<Slice> found;
    for (const Slice& block : blocks) {
      for (const Slice& job : jobs) {
        if (JobOf(job) == JobOf(block) && job.args["model"] == model) found.push_back(block);
      }
    }
    return found;
  }
  std::vector<Slice> Instants(const std::string& name) const {
    std::vector<Slice> found;
    for (const Slice& instant : instants) {
      if (instant.name == name) found.push_back(instant);
    }
    return found;
  }

  /// Checks that slices of a row do not overlap, and that each block belongs to a known job and
  /// lies within that job and within one slice of that job on the block's unit.
  void Check() const {
    for (const std::vector<Slice>* slices : {&jobs, &blocks, &on_units}) CheckRows(*slices);
    std::map<std::pair<int, int>, Slice> job_of;
    for (const Slice& job : jobs) EXPECT_TRUE(job_of.try_emplace(JobOf(job), job).second);
    std::map<std::string, std::vector<Slice>> outer;
    for (const Slice& slice : on_units) outer[slice.row].push_back(slice);
    for (const Slice& block : blocks) {
      const auto job = job_of.find(JobOf(block));
      ASSERT_NE(job, job_of.end()) << block.args;
      EXPECT_GE(block.begin, job->second.begin);
      EXPECT_LE(block.end, job->second.end);
      const std::vector<Slice>& row = outer[block.row];
      EXPECT_EQ(std::count_if(row.begin(), row.end(),
                              [&](const Slice& slice) {
                                return JobOf(slice) == JobOf(block) && slice.begin <= block.begin &&
                                       block.end <= slice.end;
                              }),
                1)
          << block.name << " at " << block.begin;
    }
    for (const Slice& instant : instants) EXPECT_GE(instant.begin, 0);
  }

  nlohmann::json other;
  std::vector<Slice> jobs, blocks, on_units, instants;
  std::map<std::string, std::vector<std::pair<std::int64_t, int>>> counters;

 private:
  static void CheckRows(std::vector<Slice> slices) {
    std::sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) {
      return std::tie(a.row, a.begin, a.end) < std::tie(b.row, b.begin, b.end);
    });
    for (std::size_t i = 1; i < slices.size(); ++i) {
      if (slices[i].row != slices[i - 1].row) continue;
      EXPECT_LE(slices[i - 1].end, slices[i].begin)
          << slices[i - 1].name << " and " << slices[i].name << " on " << slices[i].row;
    }
  }
};

}  // namespace lagoon::testing
