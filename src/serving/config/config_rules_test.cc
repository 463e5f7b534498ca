#include "serving/config/config_rules.h"

#include <gtest/gtest.h>

#include <set>

#include "serving/config/parameters.h"

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

TEST(FieldRules, SayWhatAFieldDoesOrWhyItDoesNothing) {
  for (const FieldRule& rule : FieldRules()) {
    EXPECT_EQ(rule.text.empty(), rule.verdict == FieldVerdict::kInside) << rule.path;
  }
}

TEST(ConfigParameters, SayWhatTheyTakeAndDo) {
  for (const ConfigParameter& parameter : ConfigParameters()) {
    EXPECT_TRUE(IsForLagoon(parameter.key)) << parameter.key;
    EXPECT_FALSE(parameter.takes.empty() || parameter.effect.empty()) << parameter.key;
    EXPECT_EQ(parameter.name.empty(), !parameter.key.ends_with('.')) << parameter.key;
  }
}

TEST(ConfigParameters, APrefixAloneIsUnknown) {
  ModelSettings settings;
  for (const char* key :
       {"lagoon.", "lagoon.dimension.", "lagoon.model.", "job.", "lagoon.place"}) {
    const Status read = ReadParameter(key, "1", settings);
    ASSERT_FALSE(read) << key;
    EXPECT_NE(read.error().message.find("is unknown; Lagoon has lagoon.deadline_ms, "),
              std::string::npos);
    EXPECT_NE(read.error().message.find(", lagoon.dimension.NAME, "), std::string::npos);
  }
  ASSERT_TRUE(ReadParameter("job.a.b", "x", settings));
  EXPECT_EQ(settings.parameters.at("a.b"), "x");
}

}  // namespace
}  // namespace lagoon
