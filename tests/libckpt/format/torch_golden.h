#pragma once
// Golden data sets of all PyTorch containers: every file, whole and broken, is read, verified, scanned and rewritten as
// its manifest says. Thread safety: one thread. Use: int main() { return test::run_torch_golden("x", {"torch-zip"}); }

#include <string>
#include <vector>

namespace test {

/// Exit code: 77 when the data is absent.
int run_torch_golden(const char* name, const std::vector<std::string>& formats);

}  // namespace test
