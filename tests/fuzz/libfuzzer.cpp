// The entry point of libFuzzer. One program for all targets: the one to be run is named by the environment variable
// CKPT_FUZZ_TARGET, so that only one program has to be linked.

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tests/fuzz/targets.h"

namespace {

void (*chosen_target())(core::Bytes) {
  const char* name = std::getenv("CKPT_FUZZ_TARGET");
  for (const fuzz::Target& target : fuzz::targets()) {
    if (name != nullptr && target.name == name) return target.run;
  }
  std::fprintf(stderr, "CKPT_FUZZ_TARGET must name a target:");
  for (const fuzz::Target& target : fuzz::targets()) std::fprintf(stderr, " %s", std::string(target.name).c_str());
  std::fprintf(stderr, "\n");
  std::exit(2);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static void (*const run)(core::Bytes) = chosen_target();
  run({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
