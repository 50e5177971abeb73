#include "libckpt/format/native/parity_survey.h"

#include <algorithm>
#include <atomic>
#include <map>

#include "libckpt/io/erasure_code.h"
#include "libckpt/io/parallel_io.h"

namespace ckpt::detail {
namespace {

/// What of a range lies in the file; the rest of `out` becomes zero.
void read_there(const ByteSource& file, std::uint64_t offset, MutableBytes out) {
  std::uint64_t there = offset < file.size() ? std::min<std::uint64_t>(out.size(), file.size() - offset) : 0;
  file.read(std::min(offset, file.size()), out.first(there));
  std::fill(out.begin() + static_cast<std::ptrdiff_t>(there), out.end(), std::byte{0});
}

/// One of the two tables, which may be damaged or cut.
struct HashTable {
  core::ByteVector bytes;
  std::uint64_t there = 0;  ///< entries that lie in the file

  HashTable(const ByteSource& file, std::uint64_t offset, std::uint64_t size) : bytes(size) {
    read_there(file, offset, bytes);
    there = offset < file.size() ? std::min(size, file.size() - offset) / kBlockHashBytes : 0;
  }
  bool says(std::uint64_t number, std::uint64_t hash) const {
    return number < there && core::load_le<std::uint64_t>(bytes.data() + number * kBlockHashBytes) == hash;
  }
};

unsigned count_bad_headers(const ByteSource& file, const ParityHeader& header) {
  core::ByteVector expected = encode_parity_header(header);
  core::ByteVector found(expected.size());
  unsigned bad = 0;
  for (std::uint64_t at : {header.layout.covered, header.layout.second_header()}) {
    read_there(file, at, found);
    bad += found != expected ? 1 : 0;
  }
  return bad;
}

}  // namespace

ParitySurvey survey_blocks(const ByteSource& file, const ParityHeader& header, unsigned threads) {
  constexpr std::uint64_t kPart = 4ULL << 20;
  const ParityLayout& layout = header.layout;
  ParitySurvey survey;
  survey.bad_headers = count_bad_headers(file, header);
  HashTable first(file, layout.first_table(), layout.table_bytes());
  HashTable second(file, layout.second_table(), layout.table_bytes());
  survey.hashes.resize(layout.table_bytes());
  std::vector<char> lost(layout.blocks());
  std::atomic<std::uint64_t> bad_entries = 0;
  std::uint64_t step = kPart / layout.block;
  parallel_for((layout.blocks() + step - 1) / step, thread_count(threads), [&](std::size_t part) {
    core::ByteVector block(layout.block);
    std::uint64_t end = std::min(layout.blocks(), (part + 1) * step);
    for (std::uint64_t i = part * step; i < end; ++i) {
      read_there(file, layout.offset_of(i), block);
      std::uint64_t hash = hash128(block).low;
      bool by_first = first.says(i, hash);
      bool by_second = second.says(i, hash);
      bool cut = layout.offset_of(i) + layout.block > file.size();
      lost[i] = static_cast<char>(cut || (!by_first && !by_second));
      if (lost[i] == 0) {
        bad_entries += (by_first ? 0U : 1U) + (by_second ? 0U : 1U);
        core::store_le(survey.hashes.data() + i * kBlockHashBytes, hash);
      }
    }
  });
  survey.bad_entries = bad_entries;
  for (std::uint64_t i = 0; i < layout.blocks(); ++i) {
    if (lost[i] != 0) survey.lost.push_back(i);
  }
  return survey;
}

std::vector<std::uint64_t> restorable(const ParityLayout& layout, const std::vector<std::uint64_t>& lost) {
  std::map<std::uint64_t, std::uint64_t> in_group;
  for (std::uint64_t number : lost) ++in_group[number % layout.groups];
  std::vector<std::uint64_t> out;
  for (std::uint64_t number : lost) {
    if (in_group.at(number % layout.groups) <= layout.parity) out.push_back(number);
  }
  return out;
}

void restore_blocks(const ByteSource& file, const ParityLayout& layout, const std::vector<std::uint64_t>& lost,
                    unsigned threads, const std::function<void(std::uint64_t number, Bytes block)>& use) {
  std::map<std::uint64_t, std::vector<unsigned>> rows_of;  // by group
  for (std::uint64_t number : lost) {
    rows_of[number % layout.groups].push_back(static_cast<unsigned>(layout.row_of(number)));
  }
  std::vector<std::pair<std::uint64_t, std::vector<unsigned>>> groups(rows_of.begin(), rows_of.end());
  std::uint64_t data_rows = layout.data_rows();
  ErasureCode code(static_cast<unsigned>(data_rows), layout.parity);
  parallel_for(groups.size(), thread_count(threads), [&](std::size_t i) {
    const auto& [group, gone] = groups[i];
    core::ByteVector buffer((data_rows + layout.parity) * layout.block);
    std::vector<std::byte*> rows;
    for (std::uint64_t r = 0; r < data_rows + layout.parity; ++r) {
      rows.push_back(buffer.data() + r * layout.block);
      std::uint64_t number = layout.number_of(r, group);
      if (number < layout.blocks()) read_there(file, layout.offset_of(number), {rows[r], layout.block});
    }
    code.restore(rows, gone, layout.block);
    for (unsigned row : gone) use(layout.number_of(row, group), {rows[row], layout.block});
  });
}

}  // namespace ckpt::detail
