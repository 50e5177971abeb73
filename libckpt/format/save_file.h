#pragma once
// What the options of a save say about the file that it writes. Internal to libckpt/format. Thread safety: pure.
// Use: AtomicFile file(path, file_options(options, total));

#include <cstdint>

#include "libckpt/io/atomic_file.h"
#include "libckpt/options.h"

namespace ckpt::detail {

/// `expected_size`: bytes of the file, or more; 0 where it is not known.
inline AtomicFile::Options file_options(const SaveOptions& options, std::uint64_t expected_size) {
  return {.overwrite = options.overwrite,
          .durable = options.durable,
          .expected_size = expected_size,
          .io = options.io,
          .threads = options.threads};
}

}  // namespace ckpt::detail
