// Long runs of bytes in a pickle of arrays that are no values of numbers: they are what they were.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/libckpt/format/one_file.h"
#include "tests/libckpt/format/pickle_maker.h"

namespace {

using testing::HasSubstr;

std::string run(const std::string& content) {
  return "B" + test::raw(static_cast<std::uint32_t>(content.size())) + content;
}
std::string array(const std::string& type, const std::string& values, std::int32_t count) {
  std::string dtype = test::call(test::symbol("numpy", "dtype"), {test::text(type), "\x89", "\x88"});
  return test::call(test::symbol("numpy.core.numeric", "_frombuffer"),
                    {values, dtype, test::numbers({count}), test::text("C")});
}

struct PickleRuns : test::OneFile {
  PickleRuns() : OneFile("a.pkl") {}

  const std::string long_ = std::string(4096, 'x') + std::string(4096, 'y');

  std::string with(const std::string& value) const {
    return test::pickle(
        test::pickled_dict({{test::text("w"), array("u1", run(long_), 8192)}, {test::text("v"), value}}));
  }
};

TEST_F(PickleRuns, BytesThatAreNoArrayAreRead) {
  ckpt::Checkpoint read = open(with(run(long_)));
  EXPECT_EQ(values(read, "w"), long_);
  EXPECT_EQ(core::as_text(read.root.find("v")->as_bytes()), long_);
  read = open(with(test::list({test::tuple({run(long_)})})));
  EXPECT_EQ(core::as_text(read.root.find("v")->as_list()[0].as_list()[0].as_bytes()), long_);
}

TEST_F(PickleRuns, AnArrayThatStaysAnObjectKeepsItsValues) {
  ckpt::Checkpoint read = open(with(array("S8", run(long_), 1024)));
  const ckpt::Object& object = read.root.find("v")->as_object();
  EXPECT_EQ(core::as_text(object.args.as_list()[0].as_bytes()), long_);
}

TEST_F(PickleRuns, WhatIsReadCountsAsThePickle) {
  ckpt::OpenOptions options;
  options.limits.max_pickle_bytes = 8000;
  EXPECT_EQ(values(open(with(test::number(1)), options), "w"), long_);
  try {
    open(with(run(long_)), options);
    FAIL();
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), core::ErrorCode::refused);
    EXPECT_THAT(error.what(), HasSubstr("without the values of its arrays"));
  }
}

}  // namespace
