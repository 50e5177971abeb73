// What differs between two checkpoints of any formats; the program's exit code says whether anything does.
// usage: sample_diff A B
#include <cstdio>

#include "libckpt/ckpt.h"
#include "libcore/base/error.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: sample_diff A B\n");
    return 2;
  }
  try {
    ckpt::DiffResult result = ckpt::diff(ckpt::open(argv[1]), ckpt::open(argv[2]));
    for (const ckpt::Difference& difference : result.differences) {
      std::printf("%s: %s", std::string(ckpt::name(difference.kind)).c_str(), difference.name.c_str());
      if (difference.differing > 0) std::printf(", %zu elements", static_cast<std::size_t>(difference.differing));
      std::printf("\n");
    }
    std::printf("%zu of %zu tensors equal\n", static_cast<std::size_t>(result.tensors_equal),
                static_cast<std::size_t>(result.tensors_compared));
    return result.equal() ? 0 : 1;
  } catch (const core::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
