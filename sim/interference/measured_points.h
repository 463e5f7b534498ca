#pragma once

// Measured times of models alone and beside others, as a text that anybody can write:
//   # model  rows  share  latency_ms
//   resnet50 8 0.5 11.2
//   resnet50 8 0.5 11.2 cache=0.31 dram=0.42
//   resnet50 8 0.5 11.2 cache=0.31 dram=0.42 up=0.4 down=0.01
//   resnet50 8 0.5 12.9 beside alexnet:8:0.25 vgg16:4:0.25
// A line is one measurement: a model, the rows of its batches, its share of the device (above 0, at
// most 1), and the mean time of a batch. `cache` and `dram`, 0 to 10, are the model's load on the
// device's cache and memory (1: as much as there is), measured when it runs alone; a model has them
// on all of its lines without neighbours or on none. The same holds for `up` and `down`: the
// milliseconds, below those of the batch together, of the copies of the batch's rows to the device
// and back. `beside` lists the models that ran at the same time, with their rows and shares. Fields
// are separated by blanks; # begins a comment.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cluster/interference/latency_model.h"

namespace lagoon {

struct MeasuredNeighbour {
  std::string model;
  std::int64_t rows = 1;
  double share = 1;

  bool operator==(const MeasuredNeighbour&) const = default;
};

struct MeasuredCopies {
  double up_ms = 0, down_ms = 0;

  bool operator==(const MeasuredCopies&) const = default;
};

struct MeasuredPoint {
  std::string model;                               // not empty, without blanks and ':'
  std::int64_t rows = 1;                           // 1 to 1024
  double share = 1;                                // 0.001 to 1
  double latency_ms = 0;                           // 1e-6 to 1e9
  std::optional<DeviceLoad> load = {};             // each from 0 to 10
  std::optional<MeasuredCopies> copies = {};       // each 0 or more, together below latency_ms
  std::vector<MeasuredNeighbour> neighbours = {};  // at most 64

  bool operator==(const MeasuredPoint&) const = default;
};

/// kInvalidArgument names the field and its value: it is not what MeasuredPoint says, or NaN.
Status CheckMeasuredPoint(const MeasuredPoint& point);

/// `name`: of the text, for messages. kInvalidArgument names the line, the field and its value.
Result<std::vector<MeasuredPoint>> ParseMeasuredPoints(std::string_view text,
                                                       const std::string& name);
/// kNotFound: the file cannot be read. kResourceExhausted: it has more than 64 MiB. Else as
/// ParseMeasuredPoints.
Result<std::vector<MeasuredPoint>> ReadMeasuredPoints(const std::string& path);
/// What ParseMeasuredPoints reads back to the same values.
std::string MeasuredPointsText(const std::vector<MeasuredPoint>& points);

/// Replaces the file. kUnavailable: it cannot be written.
Status WriteMeasuredPoints(const std::string& path, const std::vector<MeasuredPoint>& points);

}  // namespace lagoon
