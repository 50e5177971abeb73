#pragma once
// What a call that should fail says. Thread safety: as the call. Use: EXPECT_EQ(message_of([&] { add(a, b); }), "...");

#include <string>

#include "libcore/base/error.h"

namespace test {

/// The message of the core::Error that `function` throws; "no error" when it throws none.
template <class F>
std::string message_of(F function) {
  try {
    function();
  } catch (const core::Error& error) {
    return error.message();
  }
  return "no error";
}

}  // namespace test
