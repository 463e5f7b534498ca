#include "bench/report/csv.h"

#include <fmt/format.h>

#include <fstream>

#include "base/check.h"

namespace lagoon::bench {
namespace {

void Append(const std::vector<std::string>& row, std::string& text) {
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (i > 0) text += ',';
    if (row[i].find_first_of(",\"\r\n") == std::string::npos) {
      text += row[i];
      continue;
    }
    text += '"';
    for (const char c : row[i]) text += c == '"' ? "\"\"" : std::string(1, c);
    text += '"';
  }
  text += '\n';
}

}  // namespace

void CsvTable::Add(std::vector<std::string> row) {
  LAGOON_CHECK(row.size() == columns_.size());
  rows_.push_back(std::move(row));
}

std::string CsvTable::Text() const {
  std::string text;
  Append(columns_, text);
  for (const std::vector<std::string>& row : rows_) Append(row, text);
  return text;
}

Status CsvTable::Write(const std::string& path) const {
  std::ofstream file(path, std::ios::binary);
  file << Text();
  file.close();
  if (!file) return Fail(ErrorCode::kInvalidArgument, fmt::format("'{}' cannot be written", path));
  return {};
}

}  // namespace lagoon::bench
