// Writes a checkpoint in another format. What the new format cannot hold is an error that lists it, before a byte is
// written; with --drop it is left out and named. Progress goes to a function of the caller.
// usage: sample_convert IN OUT [--drop]
#include <cstdio>
#include <cstring>

#include "libckpt/ckpt.h"
#include "libcore/base/error.h"

int main(int argc, char** argv) {
  const bool drops = argc == 4 && std::strcmp(argv[3], "--drop") == 0;
  if (argc != 3 && !drops) {
    std::fprintf(stderr, "usage: sample_convert IN OUT [--drop]\n");
    return 2;
  }
  try {
    ckpt::Report report;
    ckpt::SaveOptions options;
    options.overwrite = false;  // an existing OUT is an error
    options.drop_inexpressible = drops;
    options.max_memory = 64 << 20;  // bytes of buffers, however large the file is
    options.report = &report;
    std::uint64_t bytes = 0;
    options.progress = [&](std::uint64_t done, std::uint64_t) { bytes = done; };
    ckpt::save(ckpt::open(argv[1], {.report = &report}), argv[2], options);
    for (const std::string& text : report.dropped) std::printf("left out: %s\n", text.c_str());
    std::printf("%s: written\n", argv[2]);
    return bytes > 0 || report.bytes_written > 0 ? 0 : 1;
  } catch (const core::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
