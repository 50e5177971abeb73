// Takes "module." off every key of a file and saves it where it was: no tensor passes through memory as a whole, and a
// reader sees the old file or the new one, also after a power cut.
// usage: sample_strip_in_place FILE
#include <cstdio>

#include "libckpt/ckpt.h"
#include "libcore/base/error.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: sample_strip_in_place FILE\n");
    return 2;
  }
  try {
    ckpt::Checkpoint wrapped = ckpt::open(argv[1]);
    ckpt::KeyChanges changes;
    ckpt::Checkpoint plain = ckpt::strip_prefix(wrapped, {.prefix = "module."}, &changes);
    for (const ckpt::KeyChange& change : changes.renamed) {
      std::printf("%s -> %s\n", change.from.c_str(), change.to.c_str());
    }
    // The checkpoint still reads from the file that this replaces; that is what the library is careful about.
    if (!changes.renamed.empty()) ckpt::save(plain, argv[1], {.format = wrapped.format});
  } catch (const core::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
