#pragma once
// What tests of checkpoints in parts share: a folder that is opened or refused, and values of what it joins to.
// Use: class Megatron : public test::PartsFolder {...}; EXPECT_THAT(refusal(core::ErrorCode::corrupt),
// HasSubstr("..."));

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "libckpt/ckpt.h"
#include "libcore/base/error.h"
#include "tests/support/temp_dir.h"

namespace test {

class PartsFolder : public testing::Test {
 protected:
  std::vector<float> values(const ckpt::Checkpoint& checkpoint, const char* name) {
    core::ByteVector raw = ckpt::read_all(*checkpoint.root.find(name)->as_entry().bytes);
    std::vector<float> out(raw.size() / sizeof(float));
    std::memcpy(out.data(), raw.data(), raw.size());
    return out;
  }
  /// What opening the folder as it is says.
  std::string refusal(core::ErrorCode code = core::ErrorCode::corrupt) {
    try {
      ckpt::open(dir_.path());
    } catch (const core::Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "was read";
    return "";
  }

  TempDir dir_;
};

}  // namespace test
