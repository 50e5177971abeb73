#pragma once
// What tests of a form that is only read share: one file, written byte by byte, opened or refused.
// Use: struct Onnx : test::OneFile { Onnx() : OneFile("a.onnx") {} }; EXPECT_THAT(refusal(bytes), HasSubstr("cut
// off"));

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "libckpt/ckpt.h"
#include "libcore/base/error.h"
#include "tests/support/temp_dir.h"

namespace test {

class OneFile : public testing::Test {
 protected:
  explicit OneFile(const char* name) : path_(dir_.path() / name) {}

  ckpt::Checkpoint open(std::string_view bytes, const ckpt::OpenOptions& options = {}) {
    write_file(path_, bytes);
    return ckpt::open(path_, options);
  }
  /// What opening the file as it is says.
  std::string refusal(core::ErrorCode code = core::ErrorCode::corrupt) {
    try {
      ckpt::open(path_);
    } catch (const core::Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "was read";
    return "";
  }
  std::string refusal(std::string_view bytes, core::ErrorCode code = core::ErrorCode::corrupt) {
    write_file(path_, bytes);
    return refusal(code);
  }
  static std::string values(const ckpt::Value& tensor) {
    return std::string(core::as_text(ckpt::read_all(*tensor.as_entry().bytes)));
  }
  static std::string values(const ckpt::Checkpoint& checkpoint, const char* name) {
    return values(*checkpoint.root.find(name));
  }
  void expect_every_beginning_refused(std::string_view whole) {
    for (std::size_t size = 1; size < whole.size(); ++size) {
      write_file(path_, whole.substr(0, size));
      try {
        ckpt::open(path_);
        ADD_FAILURE() << size << " bytes were read";
      } catch (const core::Error& error) {
        const bool bad = error.code() == core::ErrorCode::corrupt || error.code() == core::ErrorCode::unsupported;
        EXPECT_TRUE(bad) << size << ": " << error.what();
      }
    }
  }

  TempDir dir_;
  std::filesystem::path path_;
};

}  // namespace test
