#pragma once
// Compares every block of a file that has parity data with the hashes beside it, and gives back lost blocks.
// Thread safety: plain functions. Use: ParitySurvey survey = survey_blocks(*file, header, threads);

#include <cstdint>
#include <functional>
#include <vector>

#include "libckpt/format/native/parity_layout.h"
#include "libckpt/io/byte_source.h"

namespace ckpt::detail {

struct ParitySurvey {
  std::vector<std::uint64_t> lost;  ///< numbers of blocks that are not what was written, rising
  core::ByteVector hashes;          ///< of all blocks as they should be, as far as a table still says it
  std::uint64_t bad_entries = 0;    ///< of the two tables of hashes together
  unsigned bad_headers = 0;         ///< of the two
};

/// The file may be cut: what is not there is lost. Two tables say what a block's hash is; one of them is enough.
/// Cost: reads everything once.
ParitySurvey survey_blocks(const ByteSource& file, const ParityHeader& header, unsigned threads);

/// Which of the lost blocks lie in groups that have lost no more than they can.
std::vector<std::uint64_t> restorable(const ParityLayout& layout, const std::vector<std::uint64_t>& lost);

/// Computes blocks anew and hands each to `use`, from several threads. REQUIRES: all come from restorable(), with all
/// lost blocks of their groups. Memory: the blocks of one group a thread.
void restore_blocks(const ByteSource& file, const ParityLayout& layout, const std::vector<std::uint64_t>& lost,
                    unsigned threads, const std::function<void(std::uint64_t number, Bytes block)>& use);

}  // namespace ckpt::detail
