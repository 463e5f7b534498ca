#include "sim/cluster/inss_rows.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace lagoon {
namespace {

constexpr std::int64_t kFixedRows = 8;
constexpr double kFixedShare = 0.2;
constexpr std::array<std::int64_t, 4> kRows = {1, 4, 8, 16};
constexpr std::array<double, 4> kShares = {0.1, 0.3, 0.5, 0.6};

using Four = std::array<double, 4>;
struct Line {
  std::vector<std::string> models;  // the first is timed
  Four observed_ms, predicted_ms;
};

std::vector<Line> Table3() {
  return {{{"R"}, {4.997, 6.809, 11.059, 19.533}, {4.923, 7.033, 10.864, 19.387}},
          {{"A", "R"}, {0.940, 1.773, 2.482, 3.976}, {0.955, 1.785, 2.461, 3.968}},
          {{"V", "A", "R"}, {4.366, 11.180, 19.343, 36.688}, {4.349, 11.176, 19.602, 37.427}}};
}

std::vector<Line> Table4() {
  return {{{"M"}, {5.674, 3.633, 3.675, 3.623}, {5.673, 3.665, 3.642, 3.638}},
          {{"R1", "M"}, {7.884, 3.113, 2.155, 2.004}, {7.927, 3.185, 2.201, 2.104}},
          {{"V1", "R1", "M"}, {43.645, 15.213, 9.909, 9.161}, {44.878, 15.716, 10.202, 8.867}},
          {{"E", "M1"}, {8.616, 8.733, 8.757, 8.779}, {8.747, 8.877, 8.879, 8.879}}};
}

std::string NameOf(const std::vector<SimulatedRun>& runs) {
  std::string name;
  for (const SimulatedRun& run : runs) {
    name += fmt::format("{}{}:{}:{:.0f}%", name.empty() ? "" : " ", run.network, run.rows,
                        100 * run.share);
  }
  return name;
}

// Adds the rows of `line`. One model differs in its rows or its share from row to row: `varied` is
// its index.
void AddRows(const Line& line, bool by_share, std::size_t varied, std::vector<InssRow>& rows) {
  for (std::size_t i = 0; i < line.observed_ms.size(); ++i) {
    InssRow& row = rows.emplace_back();
    for (const std::string& model : line.models) {
      row.runs.push_back({model, kFixedRows, kFixedShare});
    }
    if (by_share) {
      row.runs[varied].share = kShares[i];
    } else {
      row.runs[varied].rows = kRows[i];
    }
    row.name = NameOf(row.runs);
    row.observed_ms = line.observed_ms[i];
    row.predicted_ms = line.predicted_ms[i];
  }
}

}  // namespace

double InssRow::paper_error() const { return std::abs(predicted_ms - observed_ms) / observed_ms; }

std::vector<InssRow> InssRows() {
  std::vector<InssRow> rows;
  for (const Line& line : Table3()) AddRows(line, false, 0, rows);
  for (const Line& line : Table4()) AddRows(line, true, line.models[0] == "E" ? 1 : 0, rows);
  return rows;
}

}  // namespace lagoon
