#pragma once
// The section errors of golden/dist/ddp.json: situations that every rank brings about in processes of its own.
// Use: see golden_dist.cpp.

#include <map>
#include <string>

#include "tests/support/golden_json.h"

namespace test {

/// What a rank does and says.
int run_error_rank(const std::string& id);
/// Starts the ranks of one case and compares what each says.
void run_error_case(Json json, GoldenRun& run);

}  // namespace test
