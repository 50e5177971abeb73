#include "libcore/base/warning.h"

#include <gtest/gtest.h>

#include <vector>

namespace {

TEST(Warning, GoesToTheHandlerUntilItIsReplaced) {
  std::vector<std::string> heard;
  const core::WarningHandler before =
      core::set_warning_handler([&](const std::string& text) { heard.push_back(text); });
  core::warn("one");
  core::set_warning_handler({});
  core::warn("dropped");
  core::set_warning_handler(before);
  EXPECT_EQ(heard, std::vector<std::string>{"one"});
}

TEST(Warning, DefaultIsALineOnStandardError) {
  testing::internal::CaptureStderr();
  core::warn("careful");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "warning: careful\n");
}

}  // namespace
