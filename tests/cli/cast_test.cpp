// ckpt cast and --retype: another element type.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/io/json.h"
#include "tests/cli/files.h"

using testing::ElementsAre;
using testing::HasSubstr;
using namespace test;

namespace {

TEST(CastCommand, WritesBesideTheInputAndKeepsWhatIsNamed) {
  TempDir dir;
  write_checkpoint(dir.path() / "net.safetensors", dict({{"fc.weight", tensor({1, 2})}, {"norm.weight", tensor({1})}}));
  Outcome outcome = run_ckpt(dir.path(), {"cast", "--to", "bf16", "--keep", "*norm*", "net.safetensors"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("1 of 2 tensors cast, 12 B -> 8 B, 1 kept"));
  EXPECT_THAT(types_in(dir.path() / "net.bf16.safetensors"),
              testing::UnorderedElementsAre("fc.weight bfloat16", "norm.weight float32"));
}

TEST(CastCommand, CountsForPrograms) {
  TempDir dir;
  write_model(dir, "net.pth", {"a", "b"});
  Outcome outcome = run_ckpt(dir.path(), {"cast", "--json", "--dry-run", "--to", "f16", "net.pth"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  ckpt::JsonDocument json = ckpt::JsonDocument::parse(outcome.out);
  EXPECT_EQ(first_file(json).at("tensors_cast").as_integer(), 2);
  EXPECT_EQ(first_file(json).at("bytes_before").as_integer(), 8);
  EXPECT_EQ(first_file(json).at("bytes_after").as_integer(), 4);
  EXPECT_EQ(first_file(json).at("casts").items()[0].at("to").as_text(), "float16");
}

TEST(CastCommand, RefusesTypesThatAreNone) {
  TempDir dir;
  write_model(dir, "net.pth", {"a"});
  EXPECT_EQ(run_ckpt(dir.path(), {"cast", "--to", "f17", "net.pth"}).code, 2);
  EXPECT_EQ(run_ckpt(dir.path(), {"cast", "net.pth"}).code, 2);
  Outcome outcome = run_ckpt(dir.path(), {"cast", "--to", "qint8", "net.pth"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("values of type qint8 cannot be cast"));
}

TEST(Retype, IsNamedWhereItWouldHelp) {
  TempDir dir;
  write_model(dir, "net.pth", {"a"});
  ASSERT_EQ(run_ckpt(dir.path(), {"cast", "--to", "bf16", "--in-place", "net.pth"}).code, 0);
  Outcome refused = run_ckpt(dir.path(), {"convert", "net.pth", "net.npz"});
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.err, HasSubstr("--retype bf16=f32"));
  EXPECT_FALSE(std::filesystem::exists(dir.path() / "net.npz"));
  EXPECT_EQ(run_ckpt(dir.path(), {"convert", "--retype", "bf16=f32", "net.pth", "net.npz"}).code, 0);
  EXPECT_THAT(types_in(dir.path() / "net.npz"), ElementsAre("a float32"));
  EXPECT_EQ(run_ckpt(dir.path(), {"convert", "--retype", "bf16", "net.pth", "other.npz"}).code, 2);
}

}  // namespace
