// rename by patterns, align, diff under rules, stat, cat and hash, as a user meets them.

#include <gtest/gtest.h>

#include <cmath>

#include "libckpt/io/json.h"
#include "tests/cli/files.h"

using ckpt::JsonDocument;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using namespace test;

namespace {

Outcome expect_code(const TempDir& dir, const std::vector<std::string>& arguments, int code = 0) {
  Outcome outcome = run_ckpt(dir.path(), arguments);
  EXPECT_EQ(outcome.code, code) << outcome.err << outcome.out;
  return outcome;
}

/// Two layers and a head, all different.
void write_layers(const TempDir& dir, const std::string& name) {
  write_model(dir, name, {"enc.layer1.w", "enc.layer1.b", "enc.layer2.w", "enc.layer2.b", "head.w"});
}

}  // namespace

TEST(RenameGlob, CapturesAndCounts) {
  TempDir dir;
  write_layers(dir, "net.pth");
  Outcome done =
      expect_code(dir, {"rename", "--glob", "enc.layer{#i}.*=h.{i-1}.*", "--glob", "head.*=out.*", "net.pth"});
  EXPECT_THAT(done.out, StartsWith("net.renamed.pth: 5 of 5 keys renamed, "));
  EXPECT_THAT(names_in(dir.path() / "net.renamed.pth"), ElementsAre("h.0.w", "h.0.b", "h.1.w", "h.1.b", "out.w"));
}

TEST(RenameGlob, SaysWhatIsWrong) {
  TempDir dir;
  write_layers(dir, "net.pth");
  expect_refused(dir, {"rename", "net.pth"}, 2, "--map", "");
  expect_refused(dir, {"rename", "--glob", "abc", "net.pth"}, 2, "'abc'", "not a pair");
  expect_refused(dir, {"rename", "--glob", "re:(=x", "net.pth"}, 2, "'re:('", "not a regular expression");
  expect_refused(dir, {"rename", "--glob", "nope.*=x.*", "net.pth"}, 2, "net.pth", "match nothing");
  expect_refused(dir, {"rename", "--glob", "enc.*.w=a", "net.pth"}, 3, "net.pth", "would both become 'a'");
}

TEST(RenameMap, AppliesRulesAndUndoesThem) {
  TempDir dir;
  write_layers(dir, "net.pth");
  write_file(dir.path() / "rules.toml",
             "[[rule]]\nrename = 'enc.layer{#i}.*'\nto = 'h.{i}.*'\n[[rule]]\nreshape = "
             "'head.w'\nshape = [1, 1]\nwas = [1]\n");
  expect_code(dir, {"rename", "--map", "rules.toml", "net.pth", "-o", "b.pth"});
  EXPECT_EQ(ckpt::value_at(ckpt::open(dir.path() / "b.pth").root, "head.w").as_entry().shape.size(), 2u);
  expect_code(dir, {"rename", "--map", "rules.toml", "--reverse", "b.pth", "-o", "c.pth"});
  expect_code(dir, {"diff", "net.pth", "c.pth"});
  expect_code(dir, {"diff", "--rules", "rules.toml", "net.pth", "b.pth"});
}

TEST(RenameMap, RefusesBrokenRules) {
  TempDir dir;
  write_layers(dir, "net.pth");
  write_file(dir.path() / "a.toml", "[[rule]\n");
  expect_refused(dir, {"rename", "--map", "a.toml", "net.pth"}, 3, "a.toml", "line 1");
  write_file(dir.path() / "b.toml", "[[rule]]\npaint = 'x'\n");
  expect_refused(dir, {"rename", "--map", "b.toml", "net.pth"}, 2, "b.toml: rule 1", "has no action");
  write_file(dir.path() / "c.toml", "[[rule]]\ndrop = 'head'\n");
  expect_refused(dir, {"rename", "--map", "c.toml", "--reverse", "net.pth"}, 3, "c.toml", "values are lost");
  expect_refused(dir, {"rename", "--map", "none.toml", "net.pth"}, 4, "none.toml", "");
}

TEST(Select, TakesExpressionsAndPredicates) {
  TempDir dir;
  write_layers(dir, "net.pth");
  expect_code(dir, {"select", "--include", "re:enc\\.layer[12]\\.w", "net.pth", "-o", "a.pth"});
  EXPECT_THAT(names_in(dir.path() / "a.pth"), ElementsAre("enc.layer1.w", "enc.layer2.w"));
  expect_code(dir, {"select", "--include", "enc @ndim=1", "--exclude", "*.b", "net.pth", "-o", "b.pth"});
  EXPECT_THAT(names_in(dir.path() / "b.pth"), ElementsAre("enc.layer1.w", "enc.layer2.w"));
  expect_refused(dir, {"select", "--include", "@dtype=f33", "net.pth"}, 2, "'@dtype=f33'", "needs a dtype");
}

TEST(Align, WritesRulesThatWork) {
  TempDir dir;
  write_checkpoint(dir.path() / "a.pth", dict({{"enc.layer1.w", tensor({1, 2})},
                                               {"enc.layer1.b", tensor({3, 4})},
                                               {"enc.layer2.w", tensor({5, 6})},
                                               {"enc.layer2.b", tensor({7, 8})},
                                               {"head.w", tensor({9, 10})}}));
  expect_code(dir, {"rename", "--glob", "enc.layer{#i}.*=h.{i-1}.*", "a.pth", "-o", "b.pth"});
  Outcome done = expect_code(dir, {"align", "a.pth", "b.pth", "-o", "rules.toml"});
  EXPECT_EQ(done.out, "1 rule; 5 tensors of B reproduced bit for bit: everything is explained\n");
  EXPECT_EQ(read_file(dir.path() / "rules.toml"), "[[rule]]\nrename = \"enc.layer{#i}.*\"\nto = \"h.{i-1}.*\"\n");
  expect_code(dir, {"rename", "--map", "rules.toml", "a.pth", "-o", "c.pth"});
  expect_code(dir, {"diff", "b.pth", "c.pth"});
  expect_refused(dir, {"align", "a.pth", "b.pth", "-o", "rules.toml"}, 4, "rules.toml", "already exists");
}

TEST(Align, ListsLeftoversAndExitsOne) {
  TempDir dir;
  write_checkpoint(dir.path() / "a.pth", dict({{"w", tensor({1, 2})}, {"x", tensor({3, 4, 5})}}));
  write_checkpoint(dir.path() / "b.pth", dict({{"v", tensor({1, 2})}}));
  Outcome outcome = expect_code(dir, {"align", "a.pth", "b.pth", "-o", "r.toml", "--pairs"}, 1);
  EXPECT_THAT(outcome.out, StartsWith("w -> v\nonly in A: x\n"));
  expect_code(dir, {"align", "a.pth", "b.pth", "-o", "r.toml", "-f", "--drop-unused"});
  JsonDocument json = JsonDocument::parse(expect_code(dir, {"align", "--json", "a.pth", "b.pth"}, 1).out);
  EXPECT_EQ(json.root().at("only_in_a").items()[0].as_text(), "x");
  EXPECT_FALSE(json.root().at("complete").as_boolean());
}

TEST(Align, SaysWhatWasPairedByNameAlone) {
  TempDir dir;
  write_checkpoint(dir.path() / "a.pth", dict({{"fc.weight", tensor({1, 2})}, {"bn.weight", tensor({1, 1})}}));
  expect_code(dir, {"add-prefix", "a.pth", "-o", "b.pth"});
  Outcome done = expect_code(dir, {"align", "a.pth", "b.pth", "-o", "r.toml", "--pairs"});
  EXPECT_THAT(done.out, HasSubstr("bn.weight -> module.bn.weight  (by name)\n"));
  EXPECT_THAT(done.out,
              HasSubstr("2 tensors of B reproduced bit for bit (1 pair by name alone): everything is explained\n"));
  EXPECT_THAT(
      read_file(dir.path() / "r.toml"),
      StartsWith("# Paired by name alone: the values do not prove these pairs.\n#   bn.weight -> module.bn.weight\n"));
  JsonDocument json = JsonDocument::parse(expect_code(dir, {"align", "--json", "a.pth", "b.pth"}).out);
  EXPECT_EQ(json.root().at("pairs").items()[1].at("by").as_text(), "name");
  expect_code(dir, {"rename", "--map", "r.toml", "a.pth", "-o", "c.pth"});
  expect_code(dir, {"diff", "b.pth", "c.pth"});
}

TEST(Align, ListsWhatIsNotDecidedAndExitsOne) {
  TempDir dir;
  write_checkpoint(dir.path() / "a.pth", dict({{"p.weight", tensor({1, 1})}, {"q.weight", tensor({1, 1})}}));
  write_checkpoint(dir.path() / "b.pth", dict({{"x.weight", tensor({1, 1})}, {"y.weight", tensor({1, 1})}}));
  Outcome outcome = expect_code(dir, {"align", "a.pth", "b.pth", "-o", "r.toml"}, 1);
  EXPECT_THAT(outcome.out, StartsWith("not decided: p.weight, q.weight of A; x.weight, y.weight of B\n0 rules;"));
  JsonDocument json = JsonDocument::parse(expect_code(dir, {"align", "--json", "a.pth", "b.pth"}, 1).out);
  EXPECT_EQ(json.root().at("undecided").items()[0].at("b").items()[1].as_text(), "y.weight");
}

TEST(DiffUnderRules, SaysWhatHappened) {
  TempDir dir;
  write_layers(dir, "a.pth");
  expect_code(dir, {"add-prefix", "a.pth", "-o", "b.pth"});
  EXPECT_THAT(expect_code(dir, {"diff", "a.pth", "b.pth"}, 1).out,
              HasSubstr("A and B differ: B is A with keys renamed: 'module.' is added\n"));
  expect_code(dir, {"diff", "--ignore-prefix", "module.", "a.pth", "b.pth"});
  expect_code(dir, {"cast", "--to", "bf16", "a.pth", "-o", "half.pth"});
  JsonDocument json = JsonDocument::parse(expect_code(dir, {"diff", "--json", "a.pth", "half.pth"}, 1).out);
  EXPECT_EQ(json.root().at("verdicts").items()[0].as_text(), "B is A cast to bfloat16");
}

TEST(DiffUnderRules, FailsOnlyOnWhatIsNamed) {
  TempDir dir;
  write_checkpoint(dir.path() / "a.pth", dict({{"w", tensor({1})}, {"epoch", ckpt::Value::integer(1)}}));
  write_checkpoint(dir.path() / "b.pth", dict({{"w", tensor({1})}, {"epoch", ckpt::Value::integer(2)}}));
  expect_code(dir, {"diff", "a.pth", "b.pth"}, 1);
  EXPECT_THAT(expect_code(dir, {"diff", "--fail-on", "structure,values", "a.pth", "b.pth"}).out,
              HasSubstr("in short: same weights; only plain values differ (epoch 1 -> 2)"));
  expect_code(dir, {"diff", "--fail-on", "any", "a.pth", "b.pth"}, 1);
  expect_code(dir, {"diff", "--fail-on", "colors", "a.pth", "b.pth"}, 2);
}

TEST(DiffUnderRules, TakesATolerance) {
  TempDir dir;
  write_checkpoint(dir.path() / "a.pth", dict({{"w", tensor({1})}}));
  write_checkpoint(dir.path() / "b.pth", dict({{"w", tensor({1.0001F})}}));
  expect_code(dir, {"diff", "a.pth", "b.pth"}, 1);
  expect_code(dir, {"diff", "--rtol", "1e-3", "a.pth", "b.pth"});
}

TEST(DiffUnderRules, DrawsAPage) {
  TempDir dir;
  write_checkpoint(dir.path() / "a.pth", dict({{"w", tensor({1, 2})}}));
  write_checkpoint(dir.path() / "b.pth", dict({{"w", tensor({1, 3})}}));
  expect_code(dir, {"diff", "--html", "diff.html", "a.pth", "b.pth"}, 1);
  std::string page = read_file(dir.path() / "diff.html");
  EXPECT_THAT(page, HasSubstr("1 of 2 elements differ"));
  EXPECT_THAT(page, HasSubstr("<svg"));
}

TEST(Stat, ShowsTheValuesOfEveryTensor) {
  TempDir dir;
  write_checkpoint(dir.path() / "net.pth", dict({{"w", tensor({-1, 0, 3})}, {"b", tensor({0, 0})}}));
  Outcome done = expect_code(dir, {"stat", "net.pth"});
  EXPECT_THAT(done.out, StartsWith("NAME"));
  EXPECT_THAT(done.out, HasSubstr("all floats: 5 values, 0 denormal"));
  JsonDocument json = JsonDocument::parse(expect_code(dir, {"stat", "--json", "net.pth"}).out);
  EXPECT_EQ(json.root().at("tensors").items()[0].at("max").as_real(), 3.0);
  EXPECT_EQ(json.root().at("total").at("zeros").as_integer(), 3);
}

TEST(Stat, IsAGateForBadValues) {
  TempDir dir;
  write_checkpoint(dir.path() / "net.pth",
                   dict({{"w", tensor({NAN, 1})}, {"z", tensor({0})}, {"i", tensor({INFINITY})}}));
  expect_code(dir, {"stat", "net.pth"});
  EXPECT_THAT(expect_code(dir, {"stat", "--fail-on", "nan", "net.pth"}, 1).out, HasSubstr("found: 'w': 1 value NaN\n"));
  EXPECT_THAT(expect_code(dir, {"stat", "--fail-on", "zero,inf", "net.pth"}, 1).out,
              HasSubstr("found: 'z': all 1 value are zero\nfound: 'i': 1 value Inf\n"));
  expect_code(dir, {"stat", "--fail-on", "nan", "--include", "z", "net.pth"});
  expect_refused(dir, {"stat", "--include", "nope", "net.pth"}, 2, "net.pth", "'nope'");
}

TEST(Stat, DrawsHistograms) {
  TempDir dir;
  write_checkpoint(dir.path() / "net.pth", dict({{"w", tensor({-1, 0, 3})}}));
  EXPECT_THAT(expect_code(dir, {"stat", "--histogram", "net.pth"}).out, HasSubstr("\nw\n"));
  expect_code(dir, {"stat", "--html", "stat.html", "net.pth"});
  EXPECT_THAT(read_file(dir.path() / "stat.html"), HasSubstr("<svg"));
}

TEST(Cat, PrintsValues) {
  TempDir dir;
  write_checkpoint(dir.path() / "net.pth",
                   dict({{"m", dict({{"w", tensor({1, 2.5F, 3})}})}, {"lr", ckpt::Value::real(0.1)}}));
  EXPECT_EQ(expect_code(dir, {"cat", "net.pth", "m.w"}).out, "tensor([1.0000, 2.5000, 3.0000])\n");
  EXPECT_EQ(expect_code(dir, {"cat", "net.pth::m", "w", "--slice", "1:"}).out, "tensor([2.5000, 3.0000])\n");
  EXPECT_EQ(expect_code(dir, {"cat", "net.pth", "lr"}).out, "0.1\n");
  EXPECT_THAT(expect_code(dir, {"cat", "net.pth", "m.w", "--stats"}).out, HasSubstr("from 1 to 3, mean 2.167"));
  EXPECT_EQ(expect_code(dir, {"cat", "net.pth", "m.w", "--dtype", "i64"}).out, "tensor([1, 2, 3])\n");
}

TEST(Cat, WritesBytes) {
  TempDir dir;
  write_checkpoint(dir.path() / "net.pth", dict({{"w", tensor({1, 2})}}));
  EXPECT_EQ(expect_code(dir, {"cat", "net.pth", "w", "--raw"}).out.size(), 8u);
  expect_code(dir, {"cat", "net.pth", "w", "--npy", "-o", "w.npy"});
  EXPECT_EQ(read_file(dir.path() / "w.npy").size(), 64u + 64u + 8u);
  EXPECT_THAT(read_file(dir.path() / "w.npy"), StartsWith("\x93NUMPY"));
  expect_refused(dir, {"cat", "net.pth", "w", "--npy", "-o", "w.npy"}, 4, "w.npy", "already exists");
  expect_refused(dir, {"cat", "net.pth", "w", "--npy", "--dtype", "bf16"}, 3, "'w'", "numpy has no type bfloat16");
}

TEST(Cat, SaysWhatIsWrong) {
  TempDir dir;
  write_checkpoint(dir.path() / "net.pth", dict({{"w", tensor({1, 2})}, {"n", ckpt::Value::integer(1)}}));
  expect_refused(dir, {"cat", "net.pth", "nope"}, 2, "net.pth", "nope");
  expect_refused(dir, {"cat", "net.pth", "w", "--slice", "9"}, 2, "'w'", "out of range");
  expect_refused(dir, {"cat", "net.pth", "n", "--raw"}, 2, "'n'", "not a tensor but int");
  expect_refused(dir, {"cat", "net.pth", "w", "--raw", "--npy"}, 2, "--raw", "contradict");
  expect_refused(dir, {"cat", "net.pth", "w", "-o", "x"}, 2, "-o", "needs");
}

TEST(Hash, IsTheSameInEveryFormat) {
  TempDir dir;
  write_layers(dir, "a.pth");
  expect_code(dir, {"convert", "a.pth", "b.safetensors"});
  expect_code(dir, {"convert", "a.pth", "c.ckpt"});
  std::string out = expect_code(dir, {"hash", "a.pth", "b.safetensors", "c.ckpt"}).out;
  EXPECT_THAT(out, HasSubstr("  a.pth\n" + out.substr(0, 32) + "  b.safetensors\n" + out.substr(0, 32) + "  c.ckpt\n"));
}

TEST(Hash, NamesBranchesAndTensors) {
  TempDir dir;
  write_layers(dir, "a.pth");
  std::string out = expect_code(dir, {"hash", "--depth", "1", "--tensors", "a.pth"}).out;
  EXPECT_THAT(out, HasSubstr("    enc  (4 tensors, 16 B)\n"));
  EXPECT_THAT(out, HasSubstr("    head.w  float32 [1]\n"));
  JsonDocument json = JsonDocument::parse(expect_code(dir, {"hash", "--json", "--depth", "2", "a.pth"}).out);
  EXPECT_EQ(first_file(json).at("branches").items().size(), 4u);
  expect_refused(dir, {"hash", "--include", "nope", "a.pth"}, 2, "a.pth", "no tensor");
}
