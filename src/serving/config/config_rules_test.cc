#include "serving/config/config_rules.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "base/testing/paths.h"

namespace lagoon {
namespace {

using google::protobuf::Descriptor;

/// Collects the fields below `message` that no rule covers, and the paths of all rules that apply.
void Walk(const Descriptor& message, const std::string& prefix, std::set<std::string>& missing,
          std::set<std::string_view>& met) {
  for (int i = 0; i < message.field_count(); ++i) {
    const auto& field = *message.field(i);
    const std::string path = prefix + field.name();
    const FieldRule* rule = FindFieldRule(path);
    if (rule == nullptr) {
      missing.insert(path);
      continue;
    }
    met.insert(rule->path);
    const bool has_inner = std::ranges::any_of(
        FieldRules(), [&](const FieldRule& r) { return r.path.starts_with(path + "."); });
    if (rule->verdict == FieldVerdict::kInside) {
      EXPECT_TRUE(has_inner) << path;
    }
    if (has_inner) Walk(*field.message_type(), path + ".", missing, met);
  }
}

TEST(FieldRules, CoverEveryFieldThatTritonKnows) {
  std::set<std::string> missing;
  std::set<std::string_view> met;
  Walk(*inference::ModelConfig::descriptor(), "", missing, met);
  EXPECT_EQ(missing, std::set<std::string>{});
  for (const FieldRule& rule : FieldRules()) {
    EXPECT_TRUE(met.contains(rule.path)) << rule.path << " names no field";
  }
}

TEST(FieldRules, AreAllInTheOperatorsGuide) {
  std::ifstream file(SourceFolder() + "/docs/guide/models.md");
  ASSERT_TRUE(file.is_open());
  std::ostringstream text;
  text << file.rdbuf();
  for (const FieldRule& rule : FieldRules()) {
    if (rule.verdict == FieldVerdict::kInside) continue;
    EXPECT_NE(text.str().find("`" + std::string(rule.path) + "`"), std::string::npos) << rule.path;
  }
}

TEST(FieldRules, GiveAHintWhereAFieldDoesNothing) {
  for (const FieldRule& rule : FieldRules()) {
    const bool silent =
        rule.verdict == FieldVerdict::kServed || rule.verdict == FieldVerdict::kInside;
    EXPECT_EQ(rule.hint.empty(), silent) << rule.path;
  }
}

}  // namespace
}  // namespace lagoon
