// The tool itself under strace.

#include "tests/faults/trials.h"

namespace test::faults {

void try_system_calls(const Setup&, const Operation&, Tally&) {}

}  // namespace test::faults
