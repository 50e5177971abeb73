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
using test::tensor;
using testing::HasSubstr;

Value sizes(std::initializer_list<std::int64_t> sizes) {
  Value::List list;
  for (std::int64_t size : sizes) list.push_back(Value::integer(size));
  return Value::tuple(std::move(list));
}

/// Two ranks, one group of w (2 x 2) and b (3), filled up to 8 values.
class DeepSpeed : public test::PartsFolder {
 protected:
  void SetUp() override {
    write_model(dict({{"w", sizes({2, 2})}, {"b", sizes({3})}}));
    write_part(0, {1, 2, 3, 4});
    write_part(1, {5, 6, 7, 0});
  }
  void save(const std::string& name, const Value& root) {
    ckpt::save(test::checkpoint(root), dir_.path() / name, {.format = "torch-zip", .durable = false});
  }
  void write_model(const Value& shapes, const std::string& name = "mp_rank_00_model_states.pt") {
    save(name, dict({{"module", dict({{"mean", tensor({9})}, {"w", tensor({})}})},
                     {"buffer_names", Value::list({Value::text("mean")})},
                     {"param_shapes", Value::list({shapes})},
                     {"shared_params", dict({{"tied", Value::text("w")}})},
                     {"ds_version", Value::text("0.18.0")}}));
  }
  void write_part(int rank, const std::vector<float>& values, int stage = 1) {
    std::string key = stage == 3 ? "fp32_flat_groups" : "single_partition_of_fp32_groups";
    save("zero_pp_rank_" + std::to_string(rank) + "_mp_rank_00_optim_states.pt",
         dict({{"optimizer_state_dict", dict({{"zero_stage", Value::integer(stage)},
                                              {"partition_count", Value::integer(2)},
                                              {key, Value::list({tensor(values)})}})}}));
  }
};

TEST_F(DeepSpeed, PartsAreJoined) {
  ckpt::Report report;
  ckpt::Checkpoint read = ckpt::open(dir_.path(), {.report = &report});
  EXPECT_EQ(test::names(read), (std::vector<std::string>{"mean", "w", "b", "tied"}));
  EXPECT_THAT(values(read, "w"), testing::ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(values(read, "b"), testing::ElementsAre(5, 6, 7));
  EXPECT_EQ(read.root.find("tied")->entry_ptr(), read.root.find("w")->entry_ptr());
  EXPECT_THAT(report.warnings, testing::Contains(HasSubstr("the parts of 2 processes (ZeRO stage 1)")));
}

TEST_F(DeepSpeed, AFileOfOneProcessIsItself) {
  fs::path part = dir_.path() / "zero_pp_rank_1_mp_rank_00_optim_states.pt";
  EXPECT_EQ(ckpt::open(part).format, "torch-zip");
  EXPECT_EQ(ckpt::named_file(dir_.path()), dir_.path()) << "the folder is the checkpoint, not one of its files";
}

TEST_F(DeepSpeed, HalfAFolderIsRefused) {
  fs::remove(dir_.path() / "zero_pp_rank_1_mp_rank_00_optim_states.pt");
  EXPECT_THAT(refusal(), HasSubstr("was written by 2 processes, and a part of it is missing: "
                                   "'zero_pp_rank_1_mp_rank_00_optim_states.pt'; copy that too"));
  SetUp();
  fs::remove(dir_.path() / "zero_pp_rank_0_mp_rank_00_optim_states.pt");
  EXPECT_THAT(refusal(), HasSubstr("'zero_pp_rank_0_mp_rank_00_optim_states.pt'"));
  SetUp();
  fs::remove(dir_.path() / "mp_rank_00_model_states.pt");
  EXPECT_THAT(refusal(), HasSubstr("'mp_rank_00_model_states.pt'"));
}

TEST_F(DeepSpeed, PartsOfAnotherRunAreRefused) {
  write_part(2, {1});
  EXPECT_THAT(refusal(), HasSubstr("is of one more; an older checkpoint lies in the same folder"));
}

TEST_F(DeepSpeed, ValuesMustBeThoseOfTheShapes) {
  write_part(1, {5, 6});
  EXPECT_THAT(refusal(), HasSubstr("the parameter 'b': it needs 3 values where 2 are left of its group"));
  write_part(1, {5, 6, 7, 8, 9});
  EXPECT_THAT(refusal(), HasSubstr("has 9 values where its shapes need 7"));
  write_part(1, {5, 6, 7, 0});
  write_model(dict({{"w", sizes({1LL << 40, 1LL << 40})}}));
  EXPECT_THAT(refusal(), HasSubstr("impossible shape"));
  write_model(dict({{"w", Value::text("2x2")}}));
  EXPECT_THAT(refusal(), HasSubstr("'w': a parameter has no shape"));
}

TEST_F(DeepSpeed, AFileOfAnotherFormIsNamed) {
  save("zero_pp_rank_1_mp_rank_00_optim_states.pt",
       dict({{"optimizer_state_dict",
              dict({{"zero_stage", Value::integer(1)}, {"partition_count", Value::integer(2)}})}}));
  EXPECT_THAT(refusal(),
              HasSubstr("'zero_pp_rank_1_mp_rank_00_optim_states.pt': it has no "
                        "'single_partition_of_fp32_groups', so it is no part of a ZeRO checkpoint of DeepSpeed"));
}

TEST_F(DeepSpeed, StageThreeCutsEveryParameter) {
  // b is filled up to four values.
  write_part(0, {1, 2, 5, 6}, 3);
  write_part(1, {3, 4, 7, 0}, 3);
  for (int rank : {0, 1}) {
    write_model(dict({{"w", sizes({2, 2})}, {"b", sizes({3})}}),
                "zero_pp_rank_" + std::to_string(rank) + "_mp_rank_00_model_states.pt");
  }
  ckpt::Checkpoint read = ckpt::open(dir_.path());
  EXPECT_THAT(values(read, "w"), testing::ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(values(read, "b"), testing::ElementsAre(5, 6, 7));
  write_part(1, {3, 4, 7}, 3);
  EXPECT_THAT(refusal(), HasSubstr("the parameter 'b': it needs 2 values where 1 are left of its group"));
}

TEST_F(DeepSpeed, TheFolderOfARunLeadsToItsLastCheckpoint) {
  test::TempDir run;
  fs::copy(dir_.path(), run.path() / "global_step5", fs::copy_options::recursive);
  test::write_file(run.path() / "latest", "global_step5\n");
  EXPECT_THAT(values(ckpt::open(run.path()), "b"), testing::ElementsAre(5, 6, 7));
  EXPECT_THAT(values(ckpt::open(run.path() / "global_step5/"), "b"), testing::ElementsAre(5, 6, 7));
  test::TempDir linked;
  fs::create_directory_symlink(run.path() / "global_step5", linked.path() / "elsewhere");
  test::write_file(linked.path() / "latest", "elsewhere");
  EXPECT_THROW(ckpt::open(linked.path()), Error) << "a link leads out of the folder";
}

TEST_F(DeepSpeed, DamageIsFoundInEveryPart) {
  fs::path part = dir_.path() / "zero_pp_rank_1_mp_rank_00_optim_states.pt";
  std::string bytes = test::read_file(part);
  float five = 5;
  std::size_t at = bytes.find(std::string(reinterpret_cast<const char*>(&five), sizeof five));
  ASSERT_NE(at, std::string::npos);
  bytes[at + 1] ^= 1;
  test::write_file(part, bytes);
  ASSERT_EQ(ckpt::verify(dir_.path()).damage.size(), 1U);
  ckpt::Checkpoint read = ckpt::open(dir_.path());
  EXPECT_THROW(ckpt::save(read, dir_.path() / "out.safetensors", {.durable = false}), Error);
  EXPECT_FALSE(fs::exists(dir_.path() / "out.safetensors"));
}

TEST_F(DeepSpeed, EveryPartIsScanned) {
  ckpt::ScanResult result = ckpt::scan(dir_.path());
  EXPECT_EQ(result.content, "deepspeed-zero");
  EXPECT_EQ(result.verdict(), "clean");
  EXPECT_EQ(result.pickles.size(), 3U);
}

}  // namespace
