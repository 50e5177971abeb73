// Hints that errors carry: what survives of them on the way up.
#include "libckpt/hint.h"

#include <gtest/gtest.h>

#include "libckpt/io/parallel_io.h"

namespace {

using ckpt::Hint;
using Option = Hint::Option;

[[noreturn]] void fail() {
  Hint hint{"{} reads on", {{Option::lenient}}};
  throw ckpt::HintedError(core::ErrorCode::corrupt, "12 bytes too many", hint);
}

std::string word(const Hint::Use& use) {
  return use.option == Option::lenient ? "lenient" : "drop";
}

/// What is left of the error that `body` throws: "its text / its hint".
template <class Body>
std::string left_of(Body body) {
  try {
    body();
  } catch (const core::Error& error) {
    std::optional<Hint> hint = ckpt::hint_of(error);
    return std::string(error.what()) + " / " + (hint ? hint->say(word) : "none");
  }
  return "no error";
}

TEST(Hint, SaysTheNamesOfTheOptionsInTheirPlaces) {
  Hint hint{"drop them ({}), or read {}", {{Option::drop_inexpressible}, {Option::lenient}}};
  EXPECT_EQ(hint.say(word), "drop them (drop), or read lenient");
  EXPECT_EQ(Hint{"fetch it again"}.say(word), "fetch it again");
}

TEST(Hint, SaysTwoAfterEachOther) {
  Hint hint = ckpt::both({"read {}", {{Option::lenient}}}, {"save {}", {{Option::drop_inexpressible}}});
  EXPECT_EQ(hint.say(word), "read lenient; save drop");
}

TEST(Hint, IsNotPartOfTheMessage) {
  EXPECT_EQ(left_of(fail), "12 bytes too many / lenient reads on");
  EXPECT_EQ(left_of([] { throw core::Error(core::ErrorCode::io, "gone"); }), "gone / none");
}

TEST(Hint, SurvivesContext) {
  auto body = [] { core::with_context("a.npy", [] { core::with_context("header", fail); }); };
  EXPECT_EQ(left_of(body), "a.npy: header: 12 bytes too many / lenient reads on");
}

TEST(Hint, SurvivesThreads) {
  auto body = [] {
    ckpt::parallel_for(8, 4, [](std::size_t i) {
      if (i == 5) fail();
    });
  };
  EXPECT_EQ(left_of(body), "12 bytes too many / lenient reads on");
}

TEST(Hint, GoesWithAnErrorThatIsMadeOfIt) {
  auto body = [] {
    try {
      fail();
    } catch (const core::Error& error) {
      throw ckpt::HintedError(error.code(), "again: " + error.message(), ckpt::hint_of(error));
    }
  };
  EXPECT_EQ(left_of(body), "again: 12 bytes too many / lenient reads on");
}

}  // namespace
