#pragma once
// What `ckpt view` says of one tensor, as lines of text without control characters.
// Thread safety: pure; reads the values that it shows. Use: for (const std::string& line : detail_lines(t, how))
// draw(line);

#include <string>
#include <vector>

#include "tools/ckpt/view/tensor_tree.h"

namespace cli {

struct DetailOptions {
  std::size_t width = 80;
  std::string slice = {};  ///< as `ckpt cat --slice` takes it
  bool read_all = false;   ///< also of tensors so large that it takes a while
  unsigned threads = 0;
};

/// Tensors of more bytes than this are read whole only when asked for.
inline constexpr std::uint64_t kReadAtOnce = 64ULL << 20;

/// Name, shape, dtype, device, size and ties: nothing is read.
std::vector<std::string> fact_lines(const ViewTensor& tensor);
/// Those, range and histogram, the first values or the slice, and, of two files, how they differ. Errors: none: what
/// cannot be read is said in a line.
std::vector<std::string> detail_lines(const ViewTensor& tensor, const DetailOptions& options);

/// Compares the values of one tensor of two files and sets its sameness.
void compare_values(ViewTensor& tensor, unsigned threads);

}  // namespace cli
