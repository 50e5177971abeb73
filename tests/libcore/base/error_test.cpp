#include "libcore/base/error.h"

#include <gtest/gtest.h>

namespace {

TEST(Error, ContextIsPutInFront) {
  core::Error error(core::ErrorCode::corrupt, "header is 12 bytes long");
  error.add_context("'fc.weight'").add_context("net.pth");
  EXPECT_STREQ(error.what(), "net.pth: 'fc.weight': header is 12 bytes long");
  EXPECT_EQ(error.message(), "header is 12 bytes long");
  EXPECT_EQ(error.context().front(), "net.pth");
}

TEST(Error, SameSubjectIsSaidOnce) {
  core::Error error(core::ErrorCode::io, "no such file or folder");
  error.add_context("net.pth").add_context("net.pth").add_context("job").add_context("net.pth");
  EXPECT_STREQ(error.what(), "net.pth: job: net.pth: no such file or folder");
}

TEST(Error, WithContextDecoratesAndReturns) {
  EXPECT_EQ(core::with_context("x", [] { return 3; }), 3);
  try {
    core::with_context("net.pth", [] { throw core::Error(core::ErrorCode::io, "gone"); });
    FAIL();
  } catch (const core::Error& error) {
    EXPECT_STREQ(error.what(), "net.pth: gone");
    EXPECT_EQ(error.code(), core::ErrorCode::io);
  }
}

TEST(Error, PythonNames) {
  EXPECT_EQ(core::python_name(core::ErrorCode::value), "ValueError");
  EXPECT_EQ(core::python_name(core::ErrorCode::device), "RuntimeError");
}

}  // namespace
