#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace lagoon::bench {

/// Rows of a CSV file (RFC 4180), kept until they are written.
class CsvTable {
 public:
  explicit CsvTable(std::vector<std::string> columns) : columns_(std::move(columns)) {}

  /// As many fields as there are columns.
  void Add(std::vector<std::string> row);
  std::string Text() const;
  /// kInvalidArgument names the file.
  Status Write(const std::string& path) const;

 private:
  std::vector<std::string> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace lagoon::bench
