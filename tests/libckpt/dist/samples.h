#pragma once
// A small run of a few tensors, as any number of ranks has it: some in pieces, some whole on all of them.
// Use: ckpt::Value mine = test::sample_part(rank, ranks, 1, pieces);

#include <string>

#include "libckpt/checkpoint.h"
#include "libckpt/dist/load.h"
#include "libckpt/dist/pieces.h"
#include "libcore/base/error.h"
#include "tests/libckpt/transform/trees.h"

namespace test {

/// What a call says with all that it was doing; "no error" when it throws nothing.
template <class F>
std::string said_by(F function) {
  try {
    function();
  } catch (const core::Error& error) {
    return error.what();
  }
  return "no error";
}

inline std::vector<float> numbers_from(float first, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = first + static_cast<float>(i);
  return values;
}

inline ckpt::Value matrix(float first, const core::Shape& shape) {
  ckpt::Entry entry = float_entry(numbers_from(first, core::try_numel(shape.span()).value()));
  entry.shape = shape;
  return ckpt::Value::tensor(std::make_shared<ckpt::Entry>(std::move(entry)));
}

/// The whole run; `version` tells two of them apart.
inline ckpt::Value sample_whole(float version) {
  ckpt::Value model = dict({{"rows", matrix(1000 * version, {7, 3})},
                            {"columns", matrix(2000 * version, {4, 6})},
                            {"cube", matrix(3000 * version, {5, 2, 3})},
                            {"one", matrix(4000 * version, {1, 3})},
                            {"norm.weight", matrix(5000 * version, {9})},
                            {"scalar", matrix(6000 * version, {})},
                            {"empty", matrix(0, {0, 4})}});
  return dict({{"epoch", ckpt::Value(static_cast<std::int64_t>(version))},
               {"model", model},
               {"note", ckpt::Value("of version " + std::to_string(static_cast<int>(version)))},
               {"nothing", ckpt::Value::dict(ckpt::Dict())}});
}

inline ckpt::dist::Pieces sample_pieces(int rank, int ranks) {
  return {{"model.rows", ckpt::dist::shard({7, 3}, 0, rank, ranks)},
          {"model.columns", ckpt::dist::shard({4, 6}, 1, rank, ranks)},
          {"model.cube", ckpt::dist::shard({5, 2, 3}, -3, rank, ranks)},
          {"model.one", ckpt::dist::shard({1, 3}, 0, rank, ranks)}};
}

/// What one rank has of it.
inline ckpt::Value sample_part(int rank, int ranks, float version) {
  return ckpt::dist::cut_to_pieces(sample_whole(version), sample_pieces(rank, ranks));
}

/// "" when the two trees have the same tensors, bit for bit, and the same other values.
inline std::string tree_difference(const ckpt::Value& expected, const ckpt::Value& actual) {
  auto left = ckpt::list_entries(expected);
  auto right = ckpt::list_entries(actual);
  if (left.size() != right.size()) return std::to_string(right.size()) + " tensors";
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (left[i].name != right[i].name) return left[i].name + " is called " + right[i].name;
    if (!(left[i].entry->shape == right[i].entry->shape)) return left[i].name + " has another shape";
    if (left[i].entry->dtype != right[i].entry->dtype) return left[i].name + " has another dtype";
    if (ckpt::read_all(*left[i].entry->bytes) != ckpt::read_all(*right[i].entry->bytes)) {
      return left[i].name + " has other values";
    }
  }
  for (const char* name : {"epoch", "note", "nothing"}) {
    const ckpt::Value* a = expected.find(name);
    const ckpt::Value* b = actual.find(name);
    if ((a == nullptr) != (b == nullptr) || (a != nullptr && !(*a == *b))) return std::string(name) + " differs";
  }
  return "";
}

}  // namespace test
