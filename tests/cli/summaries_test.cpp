// What the tool says first: the verdict of diff, optimizers and unused bytes in info, repeated layers in tree and ls.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "libckpt/io/json.h"
#include "tests/cli/files.h"
#include "tests/libckpt/transform/views.h"

using ckpt::JsonDocument;
using ckpt::Value;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using namespace test;

TEST(DiffVerdict, StandsFirstAndFoldsWhatItExplains) {
  TempDir dir;
  write_model(dir, "a.pth", {"conv.weight", "conv.bias", "fc.weight", "fc.bias"});
  write_model(dir, "b.pth", {"module.conv.weight", "module.conv.bias", "module.fc.weight", "module.fc.bias"});
  std::string text = run_ckpt(dir.path(), {"diff", "a.pth", "b.pth"}).out;
  EXPECT_THAT(text, StartsWith("A and B differ: B is A with keys renamed: 'module.' is added\n8 differences: "));
  EXPECT_THAT(text, HasSubstr("  8 differences explained above (--all lists them)\n"));
  EXPECT_THAT(text, Not(HasSubstr("- conv.weight")));
  EXPECT_THAT(run_ckpt(dir.path(), {"diff", "--all", "a.pth", "b.pth"}).out, HasSubstr("- conv.weight"));
  JsonDocument json = JsonDocument::parse(run_ckpt(dir.path(), {"diff", "--json", "a.pth", "b.pth"}).out);
  ASSERT_EQ(json.root().at("differences").items().size(), 8U);
  EXPECT_EQ(json.root().at("differences").items()[0].at("verdict").as_integer(), 0);
}

TEST(DiffVerdict, SummaryIsTheVerdictAndTheTotals) {
  TempDir dir;
  write_checkpoint(dir.path() / "a.pth", dict({{"w", tensor({3, 4})}}));
  write_checkpoint(dir.path() / "b.pth", dict({{"w", tensor({3, 3})}}));
  Outcome outcome = run_ckpt(dir.path(), {"diff", "--summary", "a.pth", "b.pth"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 2) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("\u2016A\u2212B\u2016/\u2016A\u2016 0.2 where they differ\n"));
  JsonDocument json = JsonDocument::parse(run_ckpt(dir.path(), {"diff", "--json", "a.pth", "b.pth"}).out);
  EXPECT_NEAR(json.root().at("relative_norm").as_real(), 0.2, 1e-12);
  EXPECT_NEAR(json.root().at("differences").items()[0].at("relative_norm").as_real(), 0.2, 1e-12);
}

/// Three values became NaN, and diff said that they differ by rounding, at most 0 units in the last place.
TEST(DiffVerdict, ValuesThatBecameNanAreNoRounding) {
  TempDir dir;
  write_checkpoint(dir.path() / "a.pth", dict({{"w", tensor({1, 2, 3})}}));
  write_checkpoint(dir.path() / "b.pth", dict({{"w", tensor({1, NAN, NAN})}}));
  std::string text = run_ckpt(dir.path(), {"diff", "a.pth", "b.pth"}).out;
  EXPECT_THAT(text, HasSubstr("NaN: 0 in A, 2 in B"));
  EXPECT_THAT(text, Not(HasSubstr("rounding")));
  EXPECT_THAT(text, Not(HasSubstr("by up to 0")));
  JsonDocument json = JsonDocument::parse(run_ckpt(dir.path(), {"diff", "--json", "a.pth", "b.pth"}).out);
  EXPECT_EQ(json.root().at("differences").items()[0].at("nans_b").as_integer(), 2);
  EXPECT_EQ(run_ckpt(dir.path(), {"diff", "b.pth", "b.pth"}).code, 0) << "a NaN of the same bits is equal";
}

namespace {

Value optimizer(const std::vector<std::string>& slots, std::vector<std::pair<std::string, Value>> settings) {
  std::vector<std::pair<std::string, Value>> state;
  for (const std::string& slot : slots) state.emplace_back(slot, tensor({1, 2}));
  settings.emplace_back("params", Value::list({Value::integer(0)}));
  ckpt::Dict numbered;
  numbered.items.emplace_back(Value::integer(0), dict(state));
  return dict({{"state", Value::dict(numbered)}, {"param_groups", Value::list({dict(settings)})}});
}

}  // namespace

TEST(InfoOfTraining, NamesTheOptimizerOnlyAsFarAsTheFileTells) {
  TempDir dir;
  auto kind = [&](const Value& state) {
    write_checkpoint(dir.path() / "run.pth", dict({{"model", dict({{"w", tensor({1, 2})}})}, {"optimizer", state}}));
    JsonDocument json = JsonDocument::parse(run_ckpt(dir.path(), {"info", "--json", "run.pth"}).out);
    EXPECT_EQ(first_file(json).at("model_parameters").as_integer(), 2);
    return std::string(first_file(json).at("optimizers").items().at(0).at("kind").as_text());
  };
  Value no = Value::boolean(false);
  Value yes = Value::boolean(true);
  const std::vector<std::string> adam = {"exp_avg", "exp_avg_sq"};
  EXPECT_EQ(kind(optimizer(adam, {{"amsgrad", no}, {"decoupled_weight_decay", yes}})), "AdamW");
  EXPECT_EQ(kind(optimizer(adam, {{"amsgrad", no}, {"decoupled_weight_decay", no}})), "Adam");
  EXPECT_EQ(kind(optimizer(adam, {{"amsgrad", no}})), "Adam or AdamW");
  EXPECT_EQ(kind(optimizer(adam, {{"decoupled_weight_decay", no}})), "RAdam");
  EXPECT_EQ(kind(optimizer({"exp_avg", "exp_avg_sq", "mu_product"}, {})), "NAdam");
  EXPECT_EQ(kind(optimizer({"momentum_buffer"}, {{"dampening", no}, {"nesterov", no}})), "SGD");
  EXPECT_EQ(kind(optimizer({"square_avg"}, {{"alpha", no}})), "RMSprop");
  EXPECT_EQ(kind(optimizer({"sum"}, {{"lr_decay", no}})), "Adagrad");
  EXPECT_EQ(kind(optimizer({"something"}, {})), "unknown optimizer");
  std::string text = run_ckpt(dir.path(), {"info", "run.pth"}).out;
  EXPECT_THAT(text, HasSubstr("  parameters   2, without the optimizer\n"));
  EXPECT_THAT(text, HasSubstr("  optimizer    'optimizer': unknown optimizer, 1 parameter, 8 B\n"));
  EXPECT_THAT(text, Not(HasSubstr("optimizer.state.0")));
}

TEST(InfoOfStorages, CountsUnusedBytesAndTheCommandFreesThem) {
  TempDir dir;
  write_checkpoint(dir.path() / "small view.pth", dict({{"w", view(floats_storage(1000), {2}, {1})}}));
  std::string info = run_ckpt(dir.path(), {"info", "small view.pth"}).out;
  EXPECT_THAT(info,
              HasSubstr("  unused       3.9 KiB that no tensor uses; to free them: ckpt compact 'small view.pth'\n"));
  EXPECT_EQ(run_ckpt(dir.path(), {"compact", "small view.pth"}).code, 0);
  EXPECT_THAT(run_ckpt(dir.path(), {"info", "small view.compact.pth"}).out, Not(HasSubstr("unused")));
}

namespace {

/// Eight blocks, alike but for h.5, and a head.
Value blocks() {
  std::vector<std::pair<std::string, Value>> items;
  for (int i = 0; i < 8; ++i) {
    std::string block = "h." + std::to_string(i);
    items.emplace_back(block + ".attn.weight", tensor({1, 2}));
    items.emplace_back(block + ".attn.bias", i == 5 ? tensor({1, 2}) : tensor({1}));
  }
  items.emplace_back("head", tensor({1}));
  return dict(items);
}

}  // namespace

TEST(RepeatedLayers, AreShownOnceOnDemandAndEachInAPipe) {
  TempDir dir;
  write_checkpoint(dir.path() / "net.pth", blocks());
  std::string each = run_ckpt(dir.path(), {"ls", "net.pth"}).out;
  EXPECT_THAT(each, HasSubstr("h.4.attn.weight")) << "ckpt ls FILE | grep finds every name";
  EXPECT_EQ(run_ckpt(dir.path(), {"ls", "--all", "net.pth"}).out, each);
  std::string folded = run_ckpt(dir.path(), {"ls", "--fold", "net.pth"}).out;
  EXPECT_THAT(folded, HasSubstr("h.0-4.attn.weight"));
  EXPECT_THAT(folded, HasSubstr("\u00d75\n"));
  EXPECT_THAT(folded, HasSubstr("h.5.attn.bias")) << "a layer of another shape stays apart";
  EXPECT_THAT(folded, HasSubstr("h.6.attn.bias")) << "two are no run";
  EXPECT_THAT(folded, Not(HasSubstr("h.1.")));
  EXPECT_THAT(folded, HasSubstr("17 tensors, "));
  EXPECT_EQ(run_ckpt(dir.path(), {"ls", "-q", "--fold", "net.pth"}).out,
            run_ckpt(dir.path(), {"ls", "-q", "net.pth"}).out);
}

TEST(RepeatedLayers, HaveTheTotalsOfAllInTree) {
  TempDir dir;
  write_checkpoint(dir.path() / "net.pth", blocks());
  std::string folded = run_ckpt(dir.path(), {"tree", "--fold", "net.pth"}).out;
  EXPECT_THAT(folded, HasSubstr("0-4.attn \u00d75       10        15   60 B"));
  EXPECT_THAT(folded, HasSubstr("--all shows each\n"));
  EXPECT_THAT(run_ckpt(dir.path(), {"tree", "net.pth"}).out, HasSubstr("4.attn"));
}

namespace {

Value shared_view(const std::shared_ptr<const ckpt::Storage>& storage) {
  return view(storage, {2}, {1});
}

}  // namespace

/// One row stood for all layers, and said nothing of those that share a tensor with another.
TEST(RepeatedLayers, KeepApartWhatSharesOtherTensors) {
  TempDir dir;
  auto first = floats_storage(2);
  std::vector<std::pair<std::string, Value>> items;
  for (int i = 0; i < 9; ++i) {
    items.emplace_back("h." + std::to_string(i) + ".w", i == 2 || i == 5 ? shared_view(first) : tensor({1, 2}));
  }
  write_checkpoint(dir.path() / "net.pth", dict(items));
  std::string folded = run_ckpt(dir.path(), {"ls", "--fold", "net.pth"}).out;
  EXPECT_THAT(folded, HasSubstr("h.0-4.w "));
  EXPECT_THAT(folded, testing::ContainsRegex("h\\.5\\.w .* shares 'h\\.2\\.w'\n"));
  EXPECT_THAT(folded, HasSubstr("h.6-8.w "));
  EXPECT_THAT(run_ckpt(dir.path(), {"tree", "--fold", "net.pth"}).out, HasSubstr("0-4 \u00d75 "));
}

TEST(RepeatedLayers, SayWhatAllOfThemShare) {
  TempDir dir;
  auto outer = floats_storage(2);
  std::vector<std::pair<std::string, Value>> items = {{"norm", shared_view(outer)}};
  for (int i = 0; i < 4; ++i) {
    auto inner = floats_storage(2);
    std::string layer = "h." + std::to_string(i);
    items.emplace_back(layer + ".a", shared_view(inner));
    items.emplace_back(layer + ".b", shared_view(inner));
    items.emplace_back(layer + ".norm", shared_view(outer));
  }
  write_checkpoint(dir.path() / "net.pth", dict(items));
  std::string folded = run_ckpt(dir.path(), {"ls", "--fold", "net.pth"}).out;
  EXPECT_THAT(folded, HasSubstr("\u00d74, shares 'h.0-3.a'\n"));
  EXPECT_THAT(folded, HasSubstr("\u00d74, shares 'norm'\n"));
}

/// safetensors files are sorted by name: 0, 1, 10, 11, 2. Layers 2 to 9 were one row, and four stood alone.
TEST(RepeatedLayers, FoldInAnyOrderOfTheFile) {
  TempDir dir;
  std::vector<std::string> keys;
  for (const char* number : {"0", "1", "10", "11", "2", "3", "4", "5", "6", "7", "8", "9"}) {
    keys.push_back(std::string("h.") + number + ".w");
  }
  write_model(dir, "net.safetensors", keys);
  std::string folded = run_ckpt(dir.path(), {"ls", "--fold", "net.safetensors"}).out;
  EXPECT_THAT(folded, HasSubstr("h.0-11.w "));
  EXPECT_THAT(folded, Not(HasSubstr("h.2-9")));
  EXPECT_EQ(run_ckpt(dir.path(), {"why", "net.safetensors", "--for", "folded.txt"},
                     {.in_child = [&] { write_file(dir.path() / "folded.txt", folded); }})
                .code,
            run_ckpt(dir.path(), {"why", "net.safetensors", "--for", "net.safetensors"}).code)
      << "the folded list names the same keys";
}

TEST(RepeatedLayers, HaveOneRowInThePageUnlessAllIsAskedFor) {
  TempDir dir;
  write_checkpoint(dir.path() / "net.pth", blocks());
  std::string page = run_ckpt(dir.path(), {"info", "net.pth", "--html", "-"}).out;
  EXPECT_THAT(page, HasSubstr("h.0-4.attn.weight"));
  EXPECT_THAT(page, HasSubstr("ckpt info --html OUT --all shows each"));
  std::string all = run_ckpt(dir.path(), {"info", "net.pth", "--html", "-", "--all"}).out;
  EXPECT_THAT(all, HasSubstr(">h.3.attn.weight<"));
  EXPECT_THAT(all, Not(HasSubstr("h.0-4")));
  expect_refused(dir, {"info", "--all", "net.pth"}, 2, "--all", "add --html OUT");
}

/// Twelve settings of the optimizer stood before the epoch.
TEST(Info, ShowsTheOptimizersSettingsLast) {
  TempDir dir;
  Value group = dict({{"lr", Value::real(0.5)}, {"params", Value::list({Value::integer(0)})}});
  Value state = dict({{"state", dict({})}, {"param_groups", Value::list({group})}});
  write_checkpoint(dir.path() / "net.pth", dict({{"optimizer", state}, {"epoch", Value::integer(3)}}));
  std::string text = run_ckpt(dir.path(), {"info", "net.pth"}).out;
  EXPECT_LT(text.find("epoch = 3"), text.find("optimizer.param_groups.0.lr = 0.5"));
}
