#include "libcore/backend/cpu/isa.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "libcore/base/error.h"

namespace {

using core::cpu::Isa;

TEST(InstructionSets, GoNoHigherThanTheCap) {
  const char* cap = std::getenv("CORE_ISA");
  if (cap == nullptr) GTEST_SKIP() << "CORE_ISA is not set";
  EXPECT_LE(core::cpu::isa(), core::cpu::isa_named(cap));
}

TEST(InstructionSets, AreNamed) {
  EXPECT_EQ(core::cpu::isa_named("baseline"), Isa::baseline);
  EXPECT_EQ(core::cpu::isa_named("avx2"), Isa::avx2);
  EXPECT_EQ(core::cpu::isa_named("avx512"), Isa::avx512);
}

TEST(InstructionSets, WithAnotherNameAreRefused) {
  try {
    core::cpu::isa_named("sse9");
    FAIL() << "it was taken";
  } catch (const core::Error& e) {
    EXPECT_EQ(e.code(), core::ErrorCode::usage);
    EXPECT_STREQ(e.what(), "CORE_ISA is 'sse9', but must be baseline, avx2 or avx512");
  }
}

TEST(InstructionSets, GiveTheCopyOfTheirLevel) {
  const int level = core::cpu::by_isa(0, 1, 2);
  EXPECT_EQ(level, static_cast<int>(core::cpu::isa()));
}

}  // namespace
