#include "apps/reference/markdown.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace lagoon {
namespace {

constexpr std::size_t kColumns = 100;

std::string Escaped(std::string_view cell) {
  std::string escaped;
  bool in_code = false;
  for (const char c : cell) {
    if (c == '`') in_code = !in_code;
    if (c == '|' || (!in_code && (c == '<' || c == '*'))) escaped += '\\';
    escaped += c == '\n' ? ' ' : c;
  }
  return escaped;
}

std::string Line(const std::vector<std::string>& cells) {
  return fmt::format("| {} |\n", fmt::join(cells, " | "));
}

}  // namespace

std::string PageHead(std::string_view title, std::string_view text) {
  return fmt::format(
      "<!-- `./run reference` makes this page from the code: change the code instead. -->\n"
      "# {}\n\n{}",
      title, Wrapped(text));
}

std::string Wrapped(std::string_view text) {
  std::string wrapped;
  std::size_t column = 0;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    if (column > 0) {
      const bool fits = column + 1 + word.size() <= kColumns;
      wrapped += fits ? ' ' : '\n';
      column = fits ? column + 1 : 0;
    }
    wrapped += word;
    column += word.size();
  }
  return wrapped + '\n';
}

std::string CodeSpan(std::string_view text) {
  return text.empty() ? std::string() : fmt::format("`{}`", text);
}

std::string Table(const std::vector<std::string>& head,
                  const std::vector<std::vector<std::string>>& rows) {
  std::string table = '\n' + Line(head) + Line(std::vector<std::string>(head.size(), "---"));
  for (const std::vector<std::string>& row : rows) {
    std::vector<std::string> cells;
    for (const std::string& cell : row) cells.push_back(Escaped(cell));
    table += Line(cells);
  }
  return table;
}

}  // namespace lagoon
