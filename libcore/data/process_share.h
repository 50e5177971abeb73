#pragma once
// Which of the processes of a distributed training this is, for those parts that work in one process too.
// Set by libcore/dist. Thread safety: set before data are read. Use: auto share = core::detail::process_share();

#include <cstdint>
#include <optional>

namespace core::detail {

struct ProcessShare {
  std::int64_t processes = 1;
  std::int64_t rank = 0;
};

/// None in a training of one process.
const std::optional<ProcessShare>& process_share();
void set_process_share(const std::optional<ProcessShare>& share);

}  // namespace core::detail
