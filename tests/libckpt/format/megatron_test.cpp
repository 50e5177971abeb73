#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/ckpt.h"
#include "libckpt/format/folder.h"
#include "libckpt/scan.h"
#include "libcore/base/error.h"
#include "tests/libckpt/format/parts_folder.h"
#include "tests/libckpt/transform/trees.h"

namespace {

namespace fs = std::filesystem;
using ckpt::Value;
using core::Error;
using core::ErrorCode;
using test::dict;
using testing::ElementsAre;
using testing::HasSubstr;

using Items = std::vector<std::pair<std::string, Value>>;

Value matrix(std::int64_t rows, const std::vector<float>& values) {
  auto entry = std::make_shared<ckpt::Entry>(test::float_entry(values));
  entry->shape = {rows, static_cast<std::int64_t>(values.size()) / rows};
  return Value::tensor(entry);
}

Value scalar(float value) {
  auto entry = std::make_shared<ckpt::Entry>(test::float_entry({value}));
  entry->shape = {};
  return Value::tensor(entry);
}

/// Two ranks of a model of one layer.
class Megatron : public test::PartsFolder {
 protected:
  void SetUp() override {
    write_rank(0, layer({1, 2}, {1, 2, 5, 6}));
    write_rank(1, layer({3, 4}, {3, 4, 7, 8}));
  }

  static Items layer(const std::vector<float>& first, const std::vector<float>& second) {
    return {{"decoder.layers.0.mlp.linear_fc1.weight", matrix(2, first)},
            {"decoder.layers.0.mlp.linear_fc2.weight", matrix(2, second)},
            {"decoder.layers.0.mlp.linear_fc2.bias", test::tensor({9, 9})}};
  }
  void write_rank(int rank, Items model, Items more = {}, Items arguments = {}, int ranks = 2) {
    arguments.emplace_back("tensor_model_parallel_size", Value::integer(ranks));
    write("mp_rank_0" + std::to_string(rank), std::move(model), std::move(more), std::move(arguments));
  }
  void write(const std::string& name, Items model, Items more, Items arguments) {
    const fs::path folder = dir_.path() / name;
    fs::create_directories(folder);
    ckpt::Object object;
    object.symbol = "argparse.Namespace";
    object.form = ckpt::Object::Form::instance;
    object.args = Value::tuple({});
    object.state = dict(std::move(arguments));
    object.has_state = true;
    Items root = {{"args", Value::object(object)}, {"iteration", Value::integer(7)}};
    root.emplace_back("model", dict(std::move(model)));
    root.insert(root.end(), more.begin(), more.end());
    ckpt::save(test::checkpoint(dict(std::move(root))), folder / "model_optim_rng.pt",
               {.format = "torch-zip", .durable = false});
  }
};

TEST_F(Megatron, PartsAreJoined) {
  ckpt::Report report;
  const ckpt::Checkpoint read = ckpt::open(dir_.path(), {.report = &report});
  EXPECT_EQ(read.format, "megatron");
  // One row of fc1 for each column of fc2 is half of what both ranks have: no gate.
  EXPECT_THAT(values(read, "decoder.layers.0.mlp.linear_fc1.weight"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(values(read, "decoder.layers.0.mlp.linear_fc2.weight"), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_THAT(values(read, "decoder.layers.0.mlp.linear_fc2.bias"), ElementsAre(9, 9));
  EXPECT_THAT(report.warnings, testing::Contains(HasSubstr("the parts of 2 ranks (2 of tensor parallelism")));
}

TEST_F(Megatron, AGateStaysBeforeWhatItGates) {
  for (int rank : {0, 1}) {
    const auto base = static_cast<float>(10 * rank);
    write_rank(rank, layer({base + 1, base + 2}, {base, base}));
  }
  const ckpt::Checkpoint read = ckpt::open(dir_.path());
  EXPECT_THAT(values(read, "decoder.layers.0.mlp.linear_fc1.weight"), ElementsAre(1, 11, 2, 12));
}

TEST_F(Megatron, AFileOfOneRankIsItself) {
  EXPECT_EQ(ckpt::open(dir_.path() / "mp_rank_01/model_optim_rng.pt", {.foreign_objects = true}).format, "torch-zip");
  EXPECT_EQ(ckpt::named_file(dir_.path()), dir_.path()) << "the folder is the checkpoint, not one of its files";
}

TEST_F(Megatron, HalfAFolderIsRefused) {
  fs::remove_all(dir_.path() / "mp_rank_01");
  EXPECT_THAT(refusal(ErrorCode::corrupt), HasSubstr("was written by 2 ranks, and a part of it is missing: "
                                                     "'mp_rank_01/model_optim_rng.pt'; copy that too"));
}

TEST_F(Megatron, FilesOfMoreRanksAreRefused) {
  write_rank(2, layer({1, 2}, {1, 2, 5, 6}));
  EXPECT_THAT(refusal(ErrorCode::corrupt), HasSubstr("an older checkpoint lies in the same folder"));
}

TEST_F(Megatron, TensorsWithoutARuleMustBeTheSameOnAllRanks) {
  for (int rank : {0, 1}) write_rank(rank, {{"decoder.mixer.scale", test::tensor({1, 2})}});
  EXPECT_THAT(values(ckpt::open(dir_.path()), "decoder.mixer.scale"), ElementsAre(1, 2));
  write_rank(1, {{"decoder.mixer.scale", test::tensor({1, 3})}});
  EXPECT_THAT(refusal(ErrorCode::unsupported), HasSubstr("'decoder.mixer.scale': no rule says how its parts"));
}

TEST_F(Megatron, PartsThatDoNotFitAreRefused) {
  write_rank(1, {{"decoder.layers.0.mlp.linear_fc1.weight", matrix(2, {3, 4})}});
  EXPECT_THAT(refusal(ErrorCode::corrupt), HasSubstr("rank 1 does not have it"));
  write_rank(1, layer({3, 4, 5, 6}, {3, 4, 7, 8}));
  EXPECT_THAT(refusal(ErrorCode::corrupt), HasSubstr("'decoder.layers.0.mlp.linear_fc1.weight': its parts do not fit"));
  Items more = layer({3, 4}, {3, 4, 7, 8});
  more.emplace_back("decoder.layers.0.more", test::tensor({1}));
  write_rank(1, more);
  EXPECT_THAT(refusal(ErrorCode::corrupt), HasSubstr("rank 1 has the tensor 'decoder.layers.0.more', and rank 0"));
  for (int rank : {0, 1}) write_rank(rank, layer({3, 4}, {1, 2, 3, 4, 5, 6}));
  EXPECT_THAT(refusal(ErrorCode::corrupt), HasSubstr("it has 2 rows, and the next layer takes 3"));
  for (int rank : {0, 1}) write_rank(rank, {});
  EXPECT_THAT(refusal(ErrorCode::corrupt), HasSubstr("holds no tensors of a model"));
}

TEST_F(Megatron, PartsOfOtherShapesAreRefused) {
  // A gate of half a row on the second rank, where the first has whole ones.
  const auto layer_of = [](std::int64_t first, std::int64_t second) {
    return Items{{"l.0.mlp.linear_fc1.weight", matrix(first, std::vector<float>(static_cast<std::size_t>(first)))},
                 {"l.0.mlp.linear_fc2.weight", matrix(1, std::vector<float>(static_cast<std::size_t>(second)))}};
  };
  write_rank(0, layer_of(4, 2));
  write_rank(1, layer_of(3, 3));
  EXPECT_THAT(refusal(ErrorCode::corrupt), HasSubstr("its parts do not fit below each other"));
  for (int rank : {0, 1}) write_rank(rank, {{"l.0.input_norm.weight", matrix(1, std::vector<float>(2 + rank))}});
  EXPECT_THAT(refusal(ErrorCode::corrupt), HasSubstr("'l.0.input_norm.weight': every rank has all of it, and"));
  for (int rank : {0, 1}) write_rank(rank, {{"l.0.mlp.linear_fc1.bias", scalar(1)}});
  EXPECT_THAT(refusal(ErrorCode::corrupt), HasSubstr("'l.0.mlp.linear_fc1.bias': its parts do not fit"));
}

TEST_F(Megatron, ScalarsMustBeTheSameOnAllRanks) {
  for (int rank : {0, 1}) write_rank(rank, {{"l.0.scale", scalar(2)}});
  EXPECT_THAT(values(ckpt::open(dir_.path()), "l.0.scale"), ElementsAre(2));
  write_rank(1, {{"l.0.scale", scalar(3)}});
  EXPECT_THAT(refusal(ErrorCode::unsupported), HasSubstr("'l.0.scale': no rule says how its parts"));
}

/// Two ranks of experts, none of tensor parallelism.
class MegatronExperts : public Megatron {
 protected:
  void SetUp() override {}
  void write_experts(int rank, Items model, int tensor = 1) {
    write("mp_rank_00_00" + std::to_string(rank), std::move(model), {},
          {{"tensor_model_parallel_size", Value::integer(tensor)},
           {"expert_model_parallel_size", Value::integer(2)},
           {"pipeline_model_parallel_size", Value::integer(1)}});
  }
};

TEST_F(MegatronExperts, AreNumberedThroughTheRanks) {
  for (int rank : {0, 1}) {
    const auto base = static_cast<float>(10 * rank);
    write_experts(rank, {{"l.mlp.router.weight", test::tensor({5})},
                         {"l.mlp.experts.local_experts.0.linear_fc1.weight", matrix(1, {base})},
                         {"l.mlp.experts.local_experts.1.linear_fc1.weight", matrix(1, {base + 1})},
                         {"l.mlp.experts.linear_fc2.weight0", matrix(1, {base + 2})},
                         {"l.mlp.experts.weight1", matrix(2, {base, base, base, base})}});
  }
  const ckpt::Checkpoint read = ckpt::open(dir_.path());
  EXPECT_THAT(values(read, "l.mlp.router.weight"), ElementsAre(5));
  EXPECT_THAT(values(read, "l.mlp.experts.local_experts.1.linear_fc1.weight"), ElementsAre(1));
  EXPECT_THAT(values(read, "l.mlp.experts.local_experts.2.linear_fc1.weight"), ElementsAre(10));
  EXPECT_THAT(values(read, "l.mlp.experts.local_experts.3.linear_fc1.weight"), ElementsAre(11));
  EXPECT_THAT(values(read, "l.mlp.experts.linear_fc2.weight1"), ElementsAre(12));
  EXPECT_THAT(values(read, "l.mlp.experts.weight1"), ElementsAre(0, 0, 0, 0, 10, 10, 10, 10));
  EXPECT_EQ(read.root.find("l.mlp.experts.weight1")->as_entry().shape, (core::Shape{2, 4}));
  EXPECT_TRUE(ckpt::verify(dir_.path()).damage.empty());
}

TEST_F(MegatronExperts, MissingOnesAreNamed) {
  write_experts(0, {{"l.mlp.experts.local_experts.0.linear_fc1.weight", matrix(1, {1})}});
  EXPECT_THAT(refusal(ErrorCode::corrupt), HasSubstr("a part of it is missing: 'mp_rank_00_001/model_optim_rng.pt'"));
  write_experts(1, {{"l.mlp.experts.local_experts.1.linear_fc1.weight", matrix(1, {1})}});
  EXPECT_THAT(refusal(ErrorCode::corrupt), HasSubstr("rank 1 of the experts does not have it"));
  write_experts(1, {{"l.mlp.experts.local_experts.0.linear_fc1.weight", matrix(1, {1})},
                    {"l.mlp.experts.local_experts.1.linear_fc1.weight", matrix(1, {1})}});
  EXPECT_THAT(refusal(ErrorCode::corrupt), HasSubstr("not all ranks have as many experts"));
  for (int rank : {0, 1}) write_experts(rank, {{"l.mlp.experts.scale", test::tensor({1})}});
  EXPECT_THAT(refusal(ErrorCode::unsupported), HasSubstr("no rule says to which expert it belongs"));
}

TEST_F(Megatron, GroupedExpertsAreNotJoinedOverTensorRanks) {
  for (int rank : {0, 1}) write_rank(rank, {{"l.mlp.experts.weight1", matrix(2, {1, 2, 3, 4})}});
  EXPECT_THAT(refusal(ErrorCode::unsupported), HasSubstr("lie in one matrix (GroupedMLP)"));
}

TEST_F(Megatron, ExpertsNeedTheirNumberInTheFolders) {
  write_rank(0, layer({1, 2}, {1, 2, 5, 6}), {}, {{"expert_model_parallel_size", Value::integer(4)}});
  EXPECT_THAT(refusal(ErrorCode::corrupt), HasSubstr("its folders have no number for that"));
}

TEST_F(Megatron, PartsOfAMixerAreCutOneByOne) {
  // One row each of z, x, B, C and dt.
  const auto mixer = [](float base, bool heads = true) {
    Items items = {{"l.mixer.in_proj.weight", matrix(5, {base, base + 1, base + 2, base + 3, base + 4})},
                   {"l.mixer.conv1d.bias", test::tensor({base, base + 1, base + 2})},
                   {"l.mixer.norm.weight", test::tensor({base})},
                   {"l.mixer.out_proj.weight", matrix(2, {base, base + 1})}};
    if (heads) items.emplace_back("l.mixer.dt_bias", test::tensor({base}));
    return items;
  };
  write_rank(0, mixer(0));
  write_rank(1, mixer(10));
  const ckpt::Checkpoint read = ckpt::open(dir_.path());
  EXPECT_THAT(values(read, "l.mixer.in_proj.weight"), ElementsAre(0, 10, 1, 11, 2, 12, 3, 13, 4, 14));
  EXPECT_THAT(values(read, "l.mixer.conv1d.bias"), ElementsAre(0, 10, 1, 11, 2, 12));
  EXPECT_THAT(values(read, "l.mixer.norm.weight"), ElementsAre(0, 10));
  EXPECT_THAT(values(read, "l.mixer.out_proj.weight"), ElementsAre(0, 10, 1, 11));
  for (int rank : {0, 1}) write_rank(rank, mixer(0, false));
  EXPECT_THAT(refusal(ErrorCode::unsupported), HasSubstr("the mixer is not that of Mamba 2"));
  for (int rank : {0, 1}) {
    Items items = mixer(0);
    items[0].second = matrix(4, {1, 2, 3, 4});
    write_rank(rank, items);
  }
  EXPECT_THAT(refusal(ErrorCode::corrupt),
              HasSubstr("it has 4 rows, which are not those of 1 inner values and 1 heads"));
}

TEST_F(Megatron, OldHeadsNeedTheirNumber) {
  for (int rank : {0, 1}) write_rank(rank, {{"l.attention.query_key_value.weight", matrix(6, {1, 2, 3, 4, 5, 6})}});
  EXPECT_THAT(refusal(ErrorCode::unsupported), HasSubstr("version 0.0, whose order of heads"));
  const Items heads = {{"num_attention_heads", Value::integer(4)}};
  for (int rank : {0, 1}) {
    write_rank(rank, {{"l.attention.query_key_value.weight", matrix(6, {1, 2, 3, 4, 5, 6})}}, {}, heads);
  }
  // q1 q2 k1 k2 v1 v2 of each rank
  EXPECT_THAT(values(ckpt::open(dir_.path()), "l.attention.query_key_value.weight"),
              ElementsAre(1, 3, 5, 2, 4, 6, 1, 3, 5, 2, 4, 6));
  // Three times as many heads are 2 in 64 bits.
  fs::remove_all(dir_.path() / "mp_rank_01");
  write_rank(0, {{"l.attention.query_key_value.weight", matrix(6, {1, 2, 3, 4, 5, 6})}}, {},
             {{"num_attention_heads", Value::integer(6148914691236517206)}}, 1);
  EXPECT_THAT(refusal(ErrorCode::corrupt), HasSubstr("are not those of"));
}

TEST_F(Megatron, TheFolderOfARunLeadsToItsLastCheckpoint) {
  test::TempDir run;
  fs::copy(dir_.path(), run.path() / "iter_0000007", fs::copy_options::recursive);
  test::write_file(run.path() / "latest_checkpointed_iteration.txt", "7");
  EXPECT_EQ(ckpt::open(run.path()).format, "megatron");
  test::write_file(run.path() / "latest_checkpointed_iteration.txt", "../../x");
  EXPECT_THROW(ckpt::open(run.path()), Error);
}

TEST_F(Megatron, EveryFileIsScanned) {
  ckpt::Object call;
  call.symbol = "os.system";
  call.form = ckpt::Object::Form::call;
  call.args = Value::tuple({Value::text("true")});
  write_rank(1, layer({3, 4}, {3, 4, 7, 8}), {{"extra", Value::object(call)}});
  const ckpt::ScanResult result = ckpt::scan(dir_.path());
  EXPECT_FALSE(result.findings.empty());
}

}  // namespace
