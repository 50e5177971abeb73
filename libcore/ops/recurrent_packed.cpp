// Recurrent layers over packed sequences. Steps that the same sequences have are one block, which is a layer of its
// own.
#include <algorithm>
#include <vector>

#include "libcore/ops/join.h"
#include "libcore/ops/recurrent.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

struct Block {
  std::int64_t row, steps, batch;
};

std::vector<Block> blocks_of(std::span<const std::int64_t> batch_sizes) {
  std::vector<Block> blocks;
  std::int64_t row = 0;
  for (const std::int64_t batch : batch_sizes) {
    if (blocks.empty() || blocks.back().batch != batch) blocks.push_back({row, 0, batch});
    ++blocks.back().steps;
    row += batch;
  }
  return blocks;
}

/// The states of sequences from `first` to `end` - 1.
RecurrentState part(const RecurrentState& state, std::int64_t first, std::int64_t end) {
  return {state.h.narrow(0, first, end - first), state.c.defined() ? state.c.narrow(0, first, end - first) : Tensor()};
}

RecurrentState joined(const std::vector<RecurrentState>& parts) {
  if (parts.size() == 1) return parts[0];
  std::vector<Tensor> h, c;
  for (const RecurrentState& each : parts) {
    h.push_back(each.h);
    if (each.c.defined()) c.push_back(each.c);
  }
  return {cat(h), c.empty() ? Tensor() : cat(c)};
}

}  // namespace

RecurrentLayer packed_recurrent_layer(RecurrentKind kind, const Tensor& rows, std::span<const std::int64_t> batch_sizes,
                                      const RecurrentState& start, const RecurrentWeights& w, bool reverse) {
  std::vector<Block> blocks = blocks_of(batch_sizes);
  if (reverse) std::reverse(blocks.begin(), blocks.end());
  std::vector<Tensor> outputs;
  std::vector<RecurrentState> ended;  // of sequences that are over, the shortest first
  RecurrentState state = part(start, 0, blocks.front().batch);
  for (const Block& block : blocks) {
    const std::int64_t before = state.h.size(0);
    if (before < block.batch) state = joined({state, part(start, before, block.batch)});
    if (before > block.batch) {
      ended.push_back(part(state, block.batch, before));
      state = part(state, 0, block.batch);
    }
    const Tensor input = rows.narrow(0, block.row, block.steps * block.batch);
    const RecurrentLayer done =
        recurrent_layer(kind, input.reshape({block.steps, block.batch, rows.size(1)}), state, w, reverse);
    outputs.push_back(done.output.reshape({block.steps * block.batch, done.output.size(2)}));
    state = done.last;
  }
  if (reverse) std::reverse(outputs.begin(), outputs.end());
  ended.push_back(state);
  std::reverse(ended.begin(), ended.end());
  return {outputs.size() == 1 ? outputs[0] : cat(outputs), joined(ended)};
}

}  // namespace core
