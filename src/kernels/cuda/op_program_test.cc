#include "kernels/cuda/op_program.h"

#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "base/testing/paths.h"
#include "kernels/cuda/bodies/args.cuh"

namespace lagoon::cuda {
namespace {

std::string ReadFile(const std::string& name) {
  std::ifstream file(SourceFolder() + "/src/" + name);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The test cuda_nvrtc checks that NVRTC compiles these files, if NVRTC is installed.
TEST(OpProgram, HasTheTextsOfTheFiles) {
  for (const SourceFile& file : EmbeddedOpSources()) {
    EXPECT_FALSE(file.text.empty()) << file.name;
    EXPECT_EQ(file.text, ReadFile(file.name)) << file.name;
  }
}

TEST(OpProgram, HasAllThatItIncludesAndNothingElse) {
  const SourceProgram::Source source = OpSource();
  std::set<std::string> there, included;
  const std::regex include(R"re(#include ["<]([^">]+)[">])re");
  const auto read = [&](const SourceFile& file) {
    for (std::sregex_iterator at(file.text.begin(), file.text.end(), include), end; at != end;
         ++at) {
      included.insert((*at)[1]);
    }
  };
  read(source.main);
  for (const SourceFile& header : source.headers) {
    EXPECT_TRUE(there.insert(header.name).second) << header.name << " is there twice";
    read(header);
  }
  // Files for the CPU, which no CUDA compiler reads.
  std::erase_if(included, [](const std::string& name) {
    return name.starts_with("simt/") || name == "base/time.h" || name == "cmath";
  });
  EXPECT_EQ(there, included);
}

TEST(OpProgram, HasAnEntryForEachBodyInTheirOrder) {
  const SourceProgram::Source source = OpSource();
  ASSERT_EQ(source.entries.size(), static_cast<std::size_t>(BodyId::kConv32x32Bf16) + 1);
  EXPECT_EQ(source.entries[static_cast<std::size_t>(BodyId::kUnary)].name, "lagoon_Unary");
  EXPECT_EQ(source.entries[static_cast<std::size_t>(BodyId::kConv64x64Bf16)].name,
            "lagoon_Conv64x64Bf16");
  for (const char* part : {"LAGOON_CUDA_ENTRY(lagoon_##name,", "LAGOON_BODIES(LAGOON_OP_ENTRY)"}) {
    EXPECT_NE(source.main.text.find(part), std::string::npos) << part;
  }
}

}  // namespace
}  // namespace lagoon::cuda
