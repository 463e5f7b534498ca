// Decoders whose caches are buffers: GroupQueryAttention writes them in place where it may.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "program/testing/run_model.h"

namespace lagoon {
namespace {

using testing::Bytes;
using testing::ModelBuilder;
using testing::ToBytes;
using Floats = std::vector<float>;

constexpr std::int64_t kTexts = 2, kHeads = 4, kKeyHeads = 2, kRoom = 6, kDepth = 8;
constexpr std::int64_t kColumns = (kHeads + 2 * kKeyHeads) * kDepth;
const Dims kCache{kTexts, kKeyHeads, kRoom, kDepth};

/// New tokens of each text behind its old ones. `more`: another node that reads the old keys.
ModelBuilder Decoder(bool more = false, std::int64_t tokens = 1) {
  ModelBuilder model(20);
  model.Input("x", {kTexts, tokens, kColumns}).Input("last", {kTexts}, onnx::TensorProto::INT32);
  model.Input("old_keys", kCache).Input("old_values", kCache);
  Floats cos, sin;
  for (int i = 0; i < kRoom * kDepth / 2; ++i) {
    cos.push_back(std::cos(static_cast<float>(i)));
    sin.push_back(std::sin(static_cast<float>(i)));
  }
  model.Floats("cos", {kRoom, kDepth / 2}, cos).Floats("sin", {kRoom, kDepth / 2}, sin);
  *model.graph().add_initializer() =
      testing::RawTensor("total", onnx::TensorProto::INT32, {}, std::vector<std::int32_t>{kRoom});
  model
      .Add("GroupQueryAttention",
           {"x", "", "", "old_keys", "old_values", "last", "total", "cos", "sin"},
           {"y", "keys", "values"})
      .Int("num_heads", kHeads)
      .Int("kv_num_heads", kKeyHeads)
      .Int("do_rotary", 1)
      .Name("n")
      .proto()
      .set_domain("com.microsoft");
  model.Output("y").Output("keys").Output("values");
  if (more) {
    model.Add("Neg", {"old_keys"}, {"negative"});
    model.Output("negative");
  }
  return model;
}

std::vector<Bytes> Inputs() {
  const auto floats = [](std::int64_t count, float step) {
    Floats data(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = std::sin(step * static_cast<float>(i));
    return ToBytes(data);
  };
  const std::int64_t cache = kTexts * kKeyHeads * kRoom * kDepth;
  return {floats(kTexts * kColumns, 0.3F), ToBytes(std::vector<std::int32_t>{2, 5}),
          floats(cache, 0.7F), floats(cache, 1.1F)};
}

/// The names of the inputs in whose places outputs lie, by output.
std::vector<std::string> Replaced(const ModelBuilder& model) {
  const auto device = testing::MakeDevice(1);
  const auto loaded = testing::Compile(*model.Load(), *device);
  std::vector<std::string> replaced;
  for (const PlanTensor& output : loaded->plan.outputs) {
    std::string& name = replaced.emplace_back();
    for (const PlanTensor& input : loaded->plan.inputs) {
      if (!input.range.Overlaps(output.range)) continue;
      EXPECT_EQ(input.range.offset, output.range.offset);
      EXPECT_EQ(input.range.bytes, output.range.bytes);
      name = input.spec.name;
    }
  }
  return replaced;
}

TEST(Cache, IsWrittenInPlaceWhereNothingElseReadsIt) {
  EXPECT_THAT(Replaced(Decoder()), ::testing::ElementsAre("", "old_keys", "old_values"));
  EXPECT_THAT(Replaced(Decoder(/*more=*/true)), ::testing::Each(""));
  ModelBuilder twice = Decoder();
  twice.Add("Identity", {"keys"}, {"again"});
  twice.Output("again");
  EXPECT_THAT(Replaced(twice), ::testing::ElementsAre("", "old_keys", "old_values", ""));
  const std::vector<Bytes> outputs = testing::RunModel(twice, Inputs());
  EXPECT_EQ(outputs[3], outputs[1]);
  EXPECT_EQ(outputs[1], testing::RunModel(Decoder(/*more=*/true), Inputs())[1]);
}

TEST(Cache, HasTheSameBitsInPlaceAndCopied) {
  const std::vector<Bytes> inputs = Inputs();
  const std::vector<Bytes> in_place = testing::RunModel(Decoder(), inputs);
  std::vector<Bytes> copied = testing::RunModel(Decoder(/*more=*/true), inputs);
  copied.pop_back();
  EXPECT_EQ(in_place, copied);
  // Only the new token of each text and key head differs from the old cache.
  const auto rows = [&](std::size_t i) { return testing::FromBytes<float>(in_place[i]); };
  const Floats keys = rows(1), old = testing::FromBytes<float>(inputs[2]);
  for (std::size_t row = 0; row < keys.size() / kDepth; ++row) {
    const std::size_t text = row / (kKeyHeads * kRoom), at = row % kRoom;
    const bool same = std::memcmp(&keys[row * kDepth], &old[row * kDepth], kDepth * 4) == 0;
    EXPECT_EQ(same, at != (text == 0 ? 2U : 5U)) << "row " << row;
  }
}

TEST(Cache, AConstantTokenIsNotWrittenWhenTheModelIsLoaded) {
  ModelBuilder model = Decoder();
  model.graph().mutable_input()->DeleteSubrange(0, 2);
  model.Weights("x", {kTexts, 1, kColumns});
  *model.graph().add_initializer() = testing::RawTensor("last", onnx::TensorProto::INT32, {kTexts},
                                                        std::vector<std::int32_t>{2, 5});
  const std::vector<Bytes> inputs = Inputs();
  const std::vector<Bytes> outputs = testing::RunModel(model, {inputs[2], inputs[3]});
  EXPECT_EQ(outputs[1].size(), inputs[2].size());
  EXPECT_THAT(Replaced(model), ::testing::Each(""));
}

/// What a decoder makes of texts that fill the caches: the outputs of all tokens, by text, and the
/// caches. It gets `tokens` at a time; the last ones may overlap those before.
struct Texts {
  std::vector<Floats> y;
  Bytes keys, values;
};
Texts ReadTexts(std::int64_t tokens) {
  const ModelBuilder model = Decoder(/*more=*/false, tokens);
  const auto row = [](std::int64_t text, std::int64_t token) {
    Floats values(kColumns);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = std::sin(static_cast<float>(text) + 1.3F * static_cast<float>(token) +
                           0.3F * static_cast<float>(i));
    }
    return values;
  };
  constexpr std::int64_t kWidth = kHeads * kDepth;
  Texts texts{std::vector<Floats>(kTexts, Floats(kRoom * kWidth)), {}, {}};
  // What lies behind the tokens so far is no zero: nothing may depend on it.
  texts.keys = ToBytes(Floats(kTexts * kKeyHeads * kRoom * kDepth, 1e4F));
  texts.values = texts.keys;
  for (std::int64_t used = 0; used < kRoom; used += tokens) {
    const std::int64_t begin = std::min(used, kRoom - tokens);
    Floats x;
    for (std::int64_t text = 0; text < kTexts; ++text) {
      for (std::int64_t i = 0; i < tokens; ++i) {
        const Floats more = row(text, begin + i);
        x.insert(x.end(), more.begin(), more.end());
      }
    }
    const std::vector<std::int32_t> last(kTexts, static_cast<std::int32_t>(begin + tokens - 1));
    const std::vector<Bytes> outputs =
        testing::RunModel(model, {ToBytes(x), ToBytes(last), texts.keys, texts.values});
    const Floats y = testing::FromBytes<float>(outputs[0]);
    for (std::int64_t text = 0; text < kTexts; ++text) {
      std::copy_n(y.begin() + text * tokens * kWidth, tokens * kWidth,
                  texts.y[static_cast<std::size_t>(text)].begin() + begin * kWidth);
    }
    texts.keys = outputs[1];
    texts.values = outputs[2];
  }
  return texts;
}

TEST(Cache, ChunksOfATextGiveWhatSingleTokensGive) {
  const Texts single = ReadTexts(1);
  for (const std::int64_t tokens : {2, 3, 4, 5, 6}) {  // 4 and 5: the last chunk overlaps
    const Texts chunks = ReadTexts(tokens);
    EXPECT_EQ(chunks.keys, single.keys) << tokens << " tokens";
    EXPECT_EQ(chunks.values, single.values) << tokens << " tokens";
    for (std::size_t text = 0; text < single.y.size(); ++text) {
      EXPECT_THAT(chunks.y[text], ::testing::Pointwise(::testing::FloatNear(2e-6F), single.y[text]))
          << tokens << " tokens";
    }
  }
}

}  // namespace
}  // namespace lagoon
