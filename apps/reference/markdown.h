#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lagoon {

/// The beginning of a page that is made from the code. `text`: paragraphs, not wrapped.
std::string PageHead(std::string_view title, std::string_view text);

/// The text in lines of up to 100 columns.
std::string Wrapped(std::string_view text);

/// The text as a code span; nothing if it is empty.
std::string CodeSpan(std::string_view text);

/// A table. Cells are Markdown; what would end a cell or begin a tag is escaped.
std::string Table(const std::vector<std::string>& head,
                  const std::vector<std::vector<std::string>>& rows);

}  // namespace lagoon
