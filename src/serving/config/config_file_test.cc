#include "serving/config/config_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "plan/parts.h"

namespace lagoon {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

Result<ConfigFile> Parse(const std::string& text) {
  return ParseConfig(text, "m", "m/config.pbtxt");
}

Error ErrorOf(const std::string& text) {
  const Result<ConfigFile> file = Parse(text);
  EXPECT_FALSE(file.has_value()) << text;
  return file ? Error{ErrorCode::kInternal, "parsed"} : file.error();
}

// A configuration as users of Triton have it, made field by field from Triton's documentation.
constexpr char kTypical[] = R"(
name: "m"
platform: "onnxruntime_onnx"
max_batch_size: 1
input [ { name: "x" data_type: TYPE_FP32 dims: [ 3, 224, 224 ] format: FORMAT_NHWC } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 1000 ] } ]
version_policy: { all {} }
instance_group [ { count: 2 kind: KIND_CPU } ]
optimization { priority: PRIORITY_MAX }
)";

TEST(ParseConfig, TakesATypicalFileWithoutAWarning) {
  const auto file = Parse(kTypical);
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_THAT(file->warnings, IsEmpty());
  EXPECT_EQ(file->config.input(0).dims_size(), 3);
  EXPECT_TRUE(file->config.version_policy().has_all());
  EXPECT_EQ(file->settings.job_class, JobClass::kRealTime);
  EXPECT_EQ(file->settings.instances, 2u);
}

TEST(ParseConfig, EmptyTextMeansTheDefaults) {
  const auto file = Parse("");
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(file->config.name(), "m");
  EXPECT_EQ(file->settings.job_class, JobClass::kBestEffort);
  EXPECT_EQ(file->settings.instances, 1u);
  EXPECT_EQ(file->settings.max_queue_size, kDefaultQueueSize);
  EXPECT_EQ(file->settings.overflow, Overflow::kReject);
  EXPECT_EQ(file->settings.deadline, Nanoseconds(0));
  EXPECT_EQ(file->settings.precision, Precision::kFp32);
  EXPECT_EQ(file->settings.filename, "model.onnx");
}

TEST(ParseConfig, RefusesAnUnknownFieldByNameAndLine) {
  const Error error = ErrorOf("name: \"m\"\nmax_batchsize: 8\n");
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.message, AllOf(StartsWith("m/config.pbtxt:2:"), HasSubstr("max_batchsize")));
}

TEST(ParseConfig, RefusesAnUnknownFieldInsideAnotherByLine) {
  EXPECT_THAT(ErrorOf("input [ {\n  name: \"x\"\n  colour: 3\n} ]").message,
              AllOf(StartsWith("m/config.pbtxt:3:"), HasSubstr("colour")));
}

TEST(ParseConfig, RefusesAnUnknownEnumValueAndATypo) {
  EXPECT_THAT(ErrorOf("optimization { priority: PRIORITY_HIGHEST }").message,
              HasSubstr("PRIORITY_HIGHEST"));
  EXPECT_THAT(ErrorOf("input [ { name: }").message, StartsWith("m/config.pbtxt:1:"));
  EXPECT_THAT(ErrorOf("\x01\x02").message, StartsWith("m/config.pbtxt:1:"));
}

TEST(ParseConfig, RefusesANameOtherThanTheFolders) {
  EXPECT_THAT(ErrorOf("name: \"other\"").message, AllOf(HasSubstr("'other'"), HasSubstr("'m'")));
}

TEST(ParseConfig, RefusesStringsThatAreNotUtf8) {
  EXPECT_THAT(ErrorOf("metric_tags { key: \"a\" value: \"\\xff\" }").message, HasSubstr("UTF-8"));
}

struct FieldCase {
  const char* text;
  const char* path;
};

class RefusedField : public ::testing::TestWithParam<FieldCase> {};
TEST_P(RefusedField, IsNamedWithItsLine) {
  const Error error = ErrorOf("# a comment\n" + std::string(GetParam().text));
  EXPECT_EQ(error.code, ErrorCode::kUnimplemented);
  EXPECT_THAT(error.message, StartsWith(std::string("m/config.pbtxt:2: ") + GetParam().path +
                                        " is not implemented: "));
}
INSTANTIATE_TEST_SUITE_P(
    ParseConfig, RefusedField,
    ::testing::Values(FieldCase{"ensemble_scheduling { step [ { model_namespace: \"other\" } ] }",
                                "ensemble_scheduling.step[0].model_namespace"},
                      FieldCase{"sequence_batching { iterative_sequence: true }",
                                "sequence_batching.iterative_sequence"},
                      FieldCase{"input [ {}, { optional: true } ]", "input[1].optional"},
                      FieldCase{"input [ { allow_ragged_batch: true } ]",
                                "input[0].allow_ragged_batch"},
                      FieldCase{"input [ { is_shape_tensor: true } ]", "input[0].is_shape_tensor"},
                      FieldCase{"batch_input [ { kind: BATCH_ELEMENT_COUNT } ]", "batch_input"},
                      FieldCase{"batch_output [ { target_name: \"y\" } ]", "batch_output"},
                      FieldCase{"model_repository_agents { agents [ { name: \"checksum\" } ] }",
                                "model_repository_agents.agents"}));

class IgnoredField : public ::testing::TestWithParam<FieldCase> {};
TEST_P(IgnoredField, GivesOneWarningWithItsLine) {
  const auto file = Parse("\n\n" + std::string(GetParam().text));
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_THAT(file->warnings, ElementsAre(StartsWith(std::string("m/config.pbtxt:3: ") +
                                                     GetParam().path + " is not implemented: ")));
}
INSTANTIATE_TEST_SUITE_P(
    ParseConfig, IgnoredField,
    ::testing::Values(FieldCase{"instance_group [ { kind: KIND_GPU } ]", "instance_group[0].kind"},
                      FieldCase{"instance_group [ { gpus: [ 0 ] } ]", "instance_group[0].gpus"},
                      FieldCase{"sequence_batching { direct { minimum_slot_utilization: 0.5 } }",
                                "sequence_batching.direct.minimum_slot_utilization"},
                      FieldCase{"optimization { cuda { graphs: true } }", "optimization.cuda"},
                      FieldCase{"response_cache { enable: true }", "response_cache.enable"},
                      FieldCase{"metric_tags { key: \"a\" value: \"b\" }", "metric_tags"}));

TEST(ParseConfig, ReadsDynamicBatching) {
  const auto file = Parse(
      "max_batch_size: 16\n"
      "dynamic_batching {\n"
      "  preferred_batch_size: [ 8, 4 ]\n"
      "  max_queue_delay_microseconds: 100\n"
      "  preserve_ordering: true\n"
      "  default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 5\n"
      "                         allow_timeout_override: true max_queue_size: 7 } }\n"
      "parameters { key: \"lagoon.places\" value { string_value: \"2\" } }");
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_THAT(file->warnings, IsEmpty());
  EXPECT_EQ(file->settings.max_queue_size, 7u);
  const BatchingSettings& batching = file->settings.batching;
  EXPECT_TRUE(batching.enabled);
  EXPECT_THAT(batching.preferred, ElementsAre(4, 8));
  EXPECT_EQ(batching.max_delay, std::chrono::microseconds(100));
  EXPECT_EQ(batching.policy.timeout, std::chrono::microseconds(5));
  EXPECT_EQ(batching.places, 2u);
  EXPECT_TRUE(batching.policy.delay_late && batching.policy.own_timeout && batching.keep_order);
}

TEST(ParseConfig, DynamicBatchingNeedsRoomForMoreThanOneRow) {
  EXPECT_FALSE(Parse("max_batch_size: 8")->settings.batching.enabled);
  const auto file = Parse("max_batch_size: 1\ndynamic_batching { }");
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_FALSE(file->settings.batching.enabled);
  EXPECT_THAT(file->warnings, ElementsAre(HasSubstr("max_batch_size is 1")));
}

TEST(ParseConfig, ReadsPriorityLevelsAndTheirPolicies) {
  const auto file = Parse(
      "max_batch_size: 8\n"
      "dynamic_batching { priority_levels: 3 default_priority_level: 2\n"
      "  default_queue_policy { default_timeout_microseconds: 5 }\n"
      "  priority_queue_policy { key: 1 value { timeout_action: DELAY max_queue_size: 4 } } }\n");
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_THAT(file->warnings, IsEmpty());
  const BatchingSettings& batching = file->settings.batching;
  EXPECT_EQ(batching.LevelOf(0), 2u);
  EXPECT_EQ(batching.LevelOf(1), 1u);
  EXPECT_EQ(batching.LevelOf(3), 3u);
  EXPECT_EQ(batching.LevelOf(4), 2u) << "a level that there is not counts as none";
  EXPECT_EQ(batching.LevelOf(~std::uint64_t{0}), 2u);
  EXPECT_TRUE(batching.PolicyOf(1).delay_late);
  EXPECT_EQ(batching.PolicyOf(1).max_waiting, 4u);
  EXPECT_EQ(batching.PolicyOf(1).timeout, Nanoseconds(0));
  EXPECT_EQ(batching.PolicyOf(2).timeout, std::chrono::microseconds(5));
}

TEST(ParseConfig, RefusesPriorityLevelsOutOfBounds) {
  const auto expect = [](const std::string& fields, const std::string& words) {
    EXPECT_THAT(ErrorOf("max_batch_size: 8 dynamic_batching { " + fields + " }").message,
                HasSubstr(words));
  };
  expect("priority_levels: 1001 default_priority_level: 1", "priority_levels is 1001");
  expect("priority_levels: 18446744073709551615", "at most 1000");
  expect("priority_levels: 2", "default_priority_level is 0; it takes 1 to 2");
  expect("priority_levels: 2 default_priority_level: 3", "default_priority_level is 3");
  expect("default_priority_level: 1", "as priority_levels is 0");
  expect("priority_levels: 2 default_priority_level: 1 priority_queue_policy { key: 3 value { } }",
         "priority_queue_policy is 3; it takes levels from 1 to 2");
  expect("priority_queue_policy { key: 1 value { } }", "priority_queue_policy is 1");
}

TEST(ParseConfig, RefusesDynamicBatchingOutOfBounds) {
  EXPECT_THAT(ErrorOf("max_batch_size: 8 dynamic_batching { preferred_batch_size: 9 }").message,
              HasSubstr("preferred_batch_size is 9; it takes 1 to 8"));
  EXPECT_THAT(ErrorOf("max_batch_size: 8 dynamic_batching { preferred_batch_size: 0 }").message,
              HasSubstr("preferred_batch_size is 0"));
  EXPECT_THAT(ErrorOf("max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: "
                      "18446744073709551615 }")
                  .message,
              HasSubstr("max_queue_delay_microseconds is 18446744073709551615"));
  EXPECT_THAT(
      ErrorOf("parameters { key: \"lagoon.places\" value { string_value: \"3\" } }").message,
      HasSubstr("a number from 1 to 2"));
}

std::string Setting(const std::string& key, const std::string& value) {
  return "parameters { key: \"" + key + "\" value { string_value: \"" + value + "\" } }\n";
}

TEST(ParseConfig, ReadsTheSloOfBatches) {
  const std::string batching = "max_batch_size: 16 dynamic_batching { }\n";
  const auto limit = [&](const std::string& parameters) {
    const auto file = Parse(batching + parameters);
    EXPECT_TRUE(file.has_value() && file->warnings.empty());
    return file->settings.batching.limit;
  };
  EXPECT_EQ(limit("").MakeLimiter(16), nullptr);
  const std::string slo = Setting("lagoon.slo_ms", "12.5");
  EXPECT_EQ(limit(slo).slo, std::chrono::microseconds(12500));
  EXPECT_EQ(limit(slo).Budget(), std::chrono::microseconds(6250));
  EXPECT_NE(limit(slo).MakeLimiter(16), nullptr);
  EXPECT_EQ(limit(slo).MakeLimiter(1), nullptr);  // nothing to limit
  EXPECT_EQ(limit(slo + Setting("lagoon.slo_of", "batch")).Budget(),
            std::chrono::microseconds(12500));
  EXPECT_EQ(limit(slo + Setting("lagoon.batching", "off")).MakeLimiter(16), nullptr);
  for (const std::string_view kind : BatchLimiterKinds()) {
    EXPECT_EQ(limit(slo + Setting("lagoon.batching", std::string(kind))).MakeLimiter(16)->Limit(),
              1)
        << kind;
  }
  const std::string fixed = Setting("lagoon.batching", "fixed:6");
  EXPECT_EQ(limit(fixed).MakeLimiter(16)->Limit(), 6) << "needs no SLO";
  EXPECT_EQ(limit(slo + fixed).MakeLimiter(4)->Limit(), 4) << "max_batch_size is smaller";
}

TEST(ParseConfig, RefusesAnSloThatIsNone) {
  for (const char* ms : {"0", "-1", "nan", "inf", "1e300", "3600001", "5ms", ""}) {
    EXPECT_THAT(ErrorOf(Setting("lagoon.slo_ms", ms)).message,
                HasSubstr("milliseconds from 0.01 to 3600000"))
        << ms;
  }
  EXPECT_THAT(ErrorOf(Setting("lagoon.slo_of", "job")).message, HasSubstr("request or batch"));
  EXPECT_THAT(ErrorOf(Setting("lagoon.batching", "Slab")).message,
              HasSubstr(BatchLimiterWords() + " or off"));
  EXPECT_THAT(ErrorOf(Setting("lagoon.batching", "fixed:0")).message, HasSubstr("fixed:ROWS"));
  EXPECT_THAT(ErrorOf(Setting("lagoon.batching", "aimd")).message,
              HasSubstr("'lagoon.slo_ms': set that too"));
  const auto file = Parse("max_batch_size: 4\n" + Setting("lagoon.slo_ms", "10"));
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_THAT(file->warnings, ElementsAre(HasSubstr("lagoon.slo_ms has no effect")));
}

TEST(ParseConfig, FieldsSetToTheirDefaultAreNoMatter) {
  const auto file = Parse(
      "model_transaction_policy { decoupled: false }\nresponse_cache { enable: false }\n"
      "input [ { optional: false } ]");
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_THAT(file->warnings, IsEmpty());
}

TEST(ParseConfig, MaxBatchSizeIsServedUpToABound) {
  const auto file = Parse("max_batch_size: 4096");
  ASSERT_TRUE(file.has_value());
  EXPECT_THAT(file->warnings, IsEmpty());
  EXPECT_EQ(file->settings.max_queue_size, kDefaultQueueSize);
  EXPECT_THAT(ErrorOf("max_batch_size: 4097").message,
              HasSubstr("max_batch_size is 4097; it takes 0 to 4096"));
}

TEST(ParseConfig, AQueueHoldsTheRequestsOfTheLargestBatch) {
  const auto size_of = [](const std::string& config) {
    return Parse(config)->settings.max_queue_size;
  };
  EXPECT_EQ(size_of("max_batch_size: 256 dynamic_batching { }"), 256u);
  EXPECT_EQ(size_of("max_batch_size: 8 dynamic_batching { }"), kDefaultQueueSize);
  EXPECT_EQ(size_of("max_batch_size: 256 "
                    "dynamic_batching { default_queue_policy { max_queue_size: 9 } }"),
            9u);
}

std::string Parameter(const std::string& key, const std::string& value) {
  return "parameters { key: \"" + key + "\" value { string_value: \"" + value + "\" } }\n";
}

TEST(Settings, PriorityMaxIsRealTimeAndTheOthersBestEffort) {
  const auto parse = [](const std::string& priority) {
    return Parse("optimization { priority: " + priority + " }")->settings.job_class;
  };
  EXPECT_EQ(parse("PRIORITY_MAX"), JobClass::kRealTime);
  EXPECT_EQ(parse("PRIORITY_MIN"), JobClass::kBestEffort);
  EXPECT_EQ(parse("PRIORITY_DEFAULT"), JobClass::kBestEffort);
}

TEST(Settings, ReadsLagoonsParameters) {
  const auto file =
      Parse(Parameter("lagoon.deadline_ms", "33.3") + Parameter("lagoon.overflow", "newest_wins") +
            Parameter("precision", "bf16") + Parameter("lagoon.max_queue_size", "3") +
            Parameter("lagoon.dimension.seq", "128") + Parameter("lagoon.buckets.n", "32,1,8") +
            Parameter("lagoon.max_unread_ms", "2500") + Parameter("lagoon.restart", "group") +
            "dynamic_batching { default_queue_policy { max_queue_size: 9 } }");
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_EQ(file->settings.deadline, std::chrono::microseconds(33300));
  EXPECT_EQ(file->settings.overflow, Overflow::kNewestWins);
  EXPECT_EQ(file->settings.precision, Precision::kBf16);
  EXPECT_EQ(file->settings.restart, Restart::kByGroup);
  EXPECT_THAT(file->warnings, Not(Contains(HasSubstr("precision"))));
  EXPECT_EQ(file->settings.max_queue_size, 3u);  // the more specific field counts
  EXPECT_EQ(file->settings.max_unread, std::chrono::milliseconds(2500));
  EXPECT_EQ(file->settings.dimensions.at("seq"), 128);
  EXPECT_THAT(file->settings.buckets.at("n"), ElementsAre(1, 8, 32));
}

TEST(Settings, RefusesAnUnknownLagoonParameter) {
  EXPECT_THAT(ErrorOf(Parameter("lagoon.dead_line", "3")).message,
              AllOf(StartsWith("m/config.pbtxt: "), HasSubstr("'lagoon.dead_line' is unknown"),
                    HasSubstr("lagoon.deadline_ms")));
}

TEST(Settings, WarnsOfOtherBackendsParameters) {
  const auto file = Parse(Parameter("intra_op_thread_count", "3"));
  ASSERT_TRUE(file.has_value());
  EXPECT_THAT(file->warnings, ElementsAre(HasSubstr("'intra_op_thread_count'")));
}

TEST(Settings, RefusesValuesOutOfRange) {
  for (const char* value : {"0", "-1", "nan", "inf", "1e300", "3ms", ""}) {
    EXPECT_THAT(ErrorOf(Parameter("lagoon.deadline_ms", value)).message,
                HasSubstr(std::string("is '") + value + "'"));
    EXPECT_THAT(ErrorOf(Parameter("lagoon.max_unread_ms", value)).message,
                HasSubstr(std::string("is '") + value + "'"));
  }
  for (const char* value : {"0", "-1", "65537", "many"}) {
    EXPECT_THAT(ErrorOf(Parameter("lagoon.max_queue_size", value)).message, HasSubstr(value));
  }
  EXPECT_THAT(ErrorOf(Parameter("lagoon.overflow", "oldest")).message, HasSubstr("newest_wins"));
  EXPECT_THAT(ErrorOf(Parameter("lagoon.restart", "never")).message,
              HasSubstr("is 'never'; it takes 'claims', 'group' or 'wait'"));
  for (const char* value : {"", "BF16", "fp16", "bf16 "}) {
    EXPECT_THAT(
        ErrorOf(Parameter("precision", value)).message,
        HasSubstr(std::string("parameter 'precision' is '") + value + "'; it takes 'fp32' or"));
  }
  for (const char* value : {"", "0", "1", "8,", "8,8", "-3", "8;16", "8, 16", "16777217"}) {
    EXPECT_THAT(ErrorOf(Parameter("lagoon.buckets.n", value)).message,
                HasSubstr(std::string("parameter 'lagoon.buckets.n' is '") + value + "'"));
  }
  EXPECT_THAT(ErrorOf(Parameter("lagoon.dimension.n", "0")).message,
              HasSubstr("lagoon.dimension.n"));
  EXPECT_THAT(ErrorOf("max_batch_size: -1").message, HasSubstr("max_batch_size is -1"));
  EXPECT_THAT(ErrorOf("instance_group [ { count: 65 } ]").message, HasSubstr("65 instances"));
  EXPECT_THAT(ErrorOf("instance_group [ { count: -2 } ]").message, HasSubstr("-2"));
  EXPECT_THAT(
      ErrorOf("dynamic_batching { default_queue_policy { max_queue_size: 70000 } }").message,
      HasSubstr("70000"));
}

TEST(Settings, RefusesOtherPlatformsAndBackends) {
  EXPECT_THAT(ErrorOf("platform: \"tensorrt_plan\"").message, HasSubstr("'tensorrt_plan'"));
  EXPECT_THAT(ErrorOf("backend: \"tensorflow\"").message, HasSubstr("'tensorflow'"));
  EXPECT_FALSE(Parse("platform: \"lagoon_job\"").has_value());  // not for an ONNX file
}

TEST(Settings, TakesTheNamesOfTritonAndThoseThatLagoonReports) {
  for (const char* platform : {"onnxruntime_onnx", "lagoon_plan"}) {
    for (const char* backend : {"onnxruntime", "lagoon"}) {
      const auto file = Parse(fmt::format("platform: '{}' backend: '{}'", platform, backend));
      EXPECT_TRUE(file.has_value()) << platform << " " << backend;
    }
  }
  const auto program = Parse("platform: 'lagoon_job' backend: 'lagoon_job'");
  ASSERT_TRUE(program.has_value()) << program.error().message;
  EXPECT_TRUE(program->settings.program);
}

TEST(Settings, OnlyAJobProgramIsDecoupled) {
  const std::string policy = "model_transaction_policy { decoupled: true }";
  const auto program = Parse("backend: 'lagoon_job' " + policy);
  ASSERT_TRUE(program.has_value()) << program.error().message;
  EXPECT_TRUE(program->settings.decoupled);
  EXPECT_THAT(ErrorOf(policy).message, HasSubstr("lagoon_job"));
}

TEST(Settings, AJobProgramGetsRequestsBeforeItIsReady) {
  const auto file = Parse(
      "backend: 'lagoon_job'\n"
      "model_warmup [ { name: 'short' count: 2 inputs { key: 'n' value { data_type: TYPE_INT64\n"
      "  dims: [ 1 ] input_data_file: 'one' } } },\n"
      "  { batch_size: 1 inputs { key: 'n' value { zero_data: true } } } ]");
  ASSERT_TRUE(file.has_value()) << file.error().message;
  ASSERT_EQ(file->settings.warmup.size(), 2u);
  const WarmupRequest& first = file->settings.warmup[0];
  EXPECT_EQ(first.name, "short");
  EXPECT_EQ(first.runs, 2u);
  EXPECT_EQ(first.inputs.at("n").type, inference::TYPE_INT64);
  EXPECT_EQ(first.inputs.at("n").dims, Dims{1});
  EXPECT_EQ(first.inputs.at("n").file, "one");
  EXPECT_EQ(file->settings.warmup[1].runs, 3u);  // Paella's three
  EXPECT_EQ(file->settings.warmup[1].inputs.at("n").file, "");
}

TEST(Settings, AWarmupThatSaysNothingIsRefused) {
  const auto error = [](const std::string& text) {
    return ErrorOf("backend: 'lagoon_job' model_warmup [ { name: 'w' " + text + " } ]").message;
  };
  EXPECT_THAT(error("batch_size: 4"), HasSubstr("model_warmup 'w': batch_size is 4"));
  EXPECT_THAT(error("count: 1001"), HasSubstr("1001 runs, the limit is 1000"));
  EXPECT_THAT(error("inputs { key: 'n' value { random_data: true } }"),
              HasSubstr("input 'n': random_data is not implemented"));
  EXPECT_THAT(error("inputs { key: 'n' value { input_data_file: '' } }"),
              HasSubstr("neither zero_data nor input_data_file"));
  EXPECT_THAT(error("inputs { key: 'n' value { } }"), HasSubstr("neither zero_data"));
}

TEST(Settings, AWarmupOfAnotherModelHasNoEffect) {
  const auto file = Parse("model_warmup [ { name: 'w' batch_size: 4 } ]");
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_THAT(file->warnings, ElementsAre(HasSubstr("model_warmup has no effect")));
}

TEST(Settings, InstanceGroupsAddUp) {
  const auto file = Parse("instance_group [ { count: 2 }, { }, { count: 3 } ]");
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(file->settings.instances, 6u);  // no count means one
}

TEST(Settings, AFilenameMayNotLeaveItsFolder) {
  EXPECT_EQ(Parse("default_model_filename: \"net.onnx\"")->settings.filename, "net.onnx");
  for (const char* name : {"../x.onnx", "/etc/passwd", "..", "a\\0b"}) {
    EXPECT_THAT(ErrorOf("default_model_filename: \"" + std::string(name) + "\"").message,
                HasSubstr("default_model_filename"));
  }
}

class ReadConfigTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ =
        std::filesystem::path(::testing::TempDir()) / ("lagoon_config_" + std::to_string(getpid()));
    std::filesystem::create_directories(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string path() const { return directory_ / "config.pbtxt"; }

  std::filesystem::path directory_;
};

TEST_F(ReadConfigTest, NoFileMeansTheDefaults) {
  const auto file = ReadConfig("m", path());
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_EQ(file->config.name(), "m");
}

TEST_F(ReadConfigTest, ReadsTheFile) {
  std::ofstream(path()) << "max_batch_size: 1";
  EXPECT_EQ(ReadConfig("m", path())->config.max_batch_size(), 1);
}

TEST_F(ReadConfigTest, AByteOrderMarkIsNoText) {
  std::ofstream(path()) << "\xEF\xBB\xBF"
                        << "max_batch_size: 1";
  const auto file = ReadConfig("m", path());
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_EQ(file->config.max_batch_size(), 1);
}

TEST_F(ReadConfigTest, AFolderInItsPlaceIsAnError) {
  std::filesystem::create_directory(path());
  const auto file = ReadConfig("m", path());
  ASSERT_FALSE(file.has_value());
  EXPECT_THAT(file.error().message, StartsWith(path()));
}

TEST_F(ReadConfigTest, APipeInItsPlaceIsAnErrorThatDoesNotWait) {
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  const auto file = ReadConfig("m", path());
  ASSERT_FALSE(file.has_value());
  EXPECT_THAT(file.error().message, HasSubstr("is not a regular file"));
}

TEST_F(ReadConfigTest, AHugeFileIsRefused) {
  std::ofstream(path()) << std::string(kMaxConfigBytes + 1, '#');
  const auto file = ReadConfig("m", path());
  ASSERT_FALSE(file.has_value());
  EXPECT_THAT(file.error().message, HasSubstr("has more than"));
}

std::optional<std::uint32_t> PartsOf(const std::string& value) {
  const auto file =
      Parse("parameters { key: \"lagoon.parts\" value { string_value: \"" + value + "\" } }");
  if (file) return file->settings.parts;
  EXPECT_THAT(file.error().message, HasSubstr("parameter 'lagoon.parts' is '" + value +
                                              "'; it takes 'auto' or a number from 1 to 64"));
  return std::nullopt;
}

TEST(ParseConfig, PartsAreAutoOrANumber) {
  EXPECT_EQ(Parse("")->settings.parts, std::nullopt);
  EXPECT_EQ(PartsOf("auto"), kAutoParts);
  EXPECT_EQ(PartsOf("1"), 1u);
  EXPECT_EQ(PartsOf("64"), 64u);
  for (const char* value : {"0", "65", "-2", "2.5", "", "many", "99999999999"}) {
    EXPECT_EQ(PartsOf(value), std::nullopt) << value;
  }
}

TEST(ParseConfig, AJobProgramHasNoParts) {
  EXPECT_THAT(ErrorOf("backend: \"lagoon_job\"\n"
                      "parameters { key: \"lagoon.parts\" value { string_value: \"2\" } }")
                  .message,
              HasSubstr("a job program does not take lagoon.parts"));
}

}  // namespace
}  // namespace lagoon
