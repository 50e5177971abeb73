#include "libcore/module/packed_sequence.h"

#include <algorithm>
#include <numeric>
#include <ostream>
#include <span>

#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/ops/index.h"
#include "libcore/ops/join.h"
#include "libcore/ops/sort.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/pinned.h"
#include "libcore/tensor/print.h"

namespace core {
namespace {

using Sizes = std::vector<std::int64_t>;

void check_lengths_tensor(const Tensor& lengths) {
  if (lengths.dim() == 1 && lengths.device().is_cpu() && lengths.dtype() == DType::i64) return;
  throw Error(ErrorCode::runtime, "'lengths' argument should be a 1D CPU int64 tensor, but got " +
                                      std::to_string(lengths.dim()) + "D " + lengths.device().str() + " " +
                                      scalar_type_name(lengths.dtype()) + " tensor");
}

void check_lengths(const Tensor& input, const Sizes& lengths) {
  if (input.dim() < 2) {
    throw Error(ErrorCode::index, "Dimension out of range (expected to be in range of [-1, 0], but got 1)");
  }
  const auto count = static_cast<std::int64_t>(lengths.size());
  const auto check = [](bool ok, const std::string& message) {
    if (!ok) throw Error(ErrorCode::runtime, message);
  };
  check(input.numel() > 0, "Cannot pack empty tensors.");
  check(count == input.size(1), "Expected `len(lengths)` to be equal to batch_size, but got " + std::to_string(count) +
                                    " (batch_size=" + std::to_string(input.size(1)) + ")");
  check(lengths.back() > 0,
        "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0");
  check(std::is_sorted(lengths.rbegin(), lengths.rend()),
        "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
        "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if you do "
        "not need ONNX exportability.");
  check(lengths[0] <= input.size(0), "Expected lengths of at most " + std::to_string(input.size(0)) +
                                         " (steps of the input), but got " + std::to_string(lengths[0]));
}

std::int64_t length_of(const Tensor& sequence) {
  if (sequence.dim() > 0) return sequence.size(0);
  throw Error(ErrorCode::index, "Dimension specified as 0 but tensor has no dimensions");
}

Shape with_tail(Shape front, const Tensor& x, std::size_t from) {
  for (std::size_t i = from; i < x.sizes().size(); ++i) front.push_back(x.sizes()[i]);
  return front;
}

/// (time, batch, ...) of `steps` steps from rows; what no sequence has is `padding`.
Tensor padded_rows(const Tensor& rows, const Sizes& batch_sizes, std::int64_t steps, Scalar padding) {
  const Tensor out =
      full(with_tail({steps, batch_sizes[0]}, rows, 1), padding, {.dtype = rows.dtype(), .device = rows.device()});
  std::int64_t at = 0;
  for (std::size_t i = 0; i < batch_sizes.size();) {
    std::size_t end = i;
    while (end < batch_sizes.size() && batch_sizes[end] == batch_sizes[i]) ++end;
    const auto first = static_cast<std::int64_t>(i), count = static_cast<std::int64_t>(end - i);
    const Tensor block = rows.narrow(0, at, count * batch_sizes[i]);
    out.narrow(0, first, count)
        .narrow(1, 0, batch_sizes[i])
        .copy_(block.reshape(with_tail({count, batch_sizes[i]}, rows, 1)));
    at += count * batch_sizes[i];
    i = end;
  }
  return out;
}

/// Rows of (time, batch, ...), and how many sequences have each step.
std::pair<Tensor, Sizes> packed_rows(const Tensor& input, const Sizes& lengths) {
  std::vector<Tensor> blocks;
  Sizes batch_sizes;
  std::int64_t before = 0;
  for (std::size_t i = lengths.size(); i > 0; --i) {
    const std::int64_t length = lengths[i - 1], batch = static_cast<std::int64_t>(i);
    if (length <= before) continue;
    const Tensor block = input.narrow(0, before, length - before).narrow(1, 0, batch);
    blocks.push_back(block.reshape(with_tail({(length - before) * batch}, input, 2)));
    batch_sizes.insert(batch_sizes.end(), static_cast<std::size_t>(length - before), batch);
    before = length;
  }
  return {blocks.size() == 1 ? blocks[0].clone() : cat(blocks), batch_sizes};
}

struct PackPaddedSequenceBackward final : Node {
  std::string_view name() const override { return "PackPaddedSequenceBackward0"; }
  TensorList apply(TensorList g) override { return {padded_rows(g[0], batch_sizes, steps, 0.0)}; }

  Sizes batch_sizes;
  std::int64_t steps = 0;
};

PackedSequence packed_in_order(const Tensor& input, const Tensor& lengths, const Tensor& order) {
  const Sizes sizes = lengths.to_vector<std::int64_t>();
  check_lengths(input, sizes);
  auto [rows, batch_sizes] = [&] {
    const NoGradGuard no_history;
    return packed_rows(input, sizes);
  }();
  if (needs_grad(input)) {
    auto node = make_node<PackPaddedSequenceBackward>(input);
    node->batch_sizes = batch_sizes;
    node->steps = input.size(0);
    record(rows, node);
  }
  return {rows, from_values(batch_sizes, {.device = Device()}), order};
}

std::string text_or_none(const Tensor& x) {
  return x.defined() ? to_string(x) : "None";
}

}  // namespace

PackedSequence::PackedSequence(Tensor rows, Tensor sizes, Tensor sorted, Tensor unsorted)
    : data(std::move(rows)),
      batch_sizes(std::move(sizes)),
      sorted_indices(std::move(sorted)),
      unsorted_indices(std::move(unsorted)) {
  if (!unsorted_indices.defined()) unsorted_indices = invert_permutation(sorted_indices);
  if (batch_sizes.device().is_cpu()) return;
  throw Error(ErrorCode::value,
              "batch_sizes should always be on CPU. Instances of PackedSequence should never be created manually. They "
              "should be instantiated by functions like pack_sequence and pack_padded_sequences in nn.utils.rnn. "
              "https://pytorch.org/docs/stable/nn.html#torch.nn.utils.rnn.pack_sequence");
}

PackedSequence PackedSequence::to(const ToOptions& options) const {
  const Tensor moved = data.to(options);
  const auto beside = [&](const Tensor& t) { return t.defined() ? t.to(moved.device()) : t; };
  return {moved, batch_sizes, beside(sorted_indices), beside(unsorted_indices)};
}

PackedSequence PackedSequence::pin_memory() const {
  const auto pinned = [](const Tensor& t) { return t.defined() ? core::pin_memory(t) : t; };
  return {pinned(data), batch_sizes, pinned(sorted_indices), pinned(unsorted_indices)};
}

std::vector<std::int64_t> PackedSequence::sizes_of_steps() const {
  check_lengths_tensor(batch_sizes);
  const Sizes sizes = batch_sizes.to_vector<std::int64_t>();
  const bool never_grows = std::is_sorted(sizes.rbegin(), sizes.rend());
  if (data.dim() > 0 && !sizes.empty() && sizes.back() > 0 && never_grows && sizes.front() <= data.size(0)) {
    if (std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}) == data.size(0)) return sizes;
  }
  throw Error(ErrorCode::value,
              "batch_sizes of a PackedSequence begin above 0, never grow and add up to the rows of data, "
              "but got " +
                  to_list(Shape(sizes)) + " for data of size " + to_list(data.sizes()));
}

std::string PackedSequence::str() const {
  return "PackedSequence(data=" + text_or_none(data) + ", batch_sizes=" + text_or_none(batch_sizes) +
         ", sorted_indices=" + text_or_none(sorted_indices) + ", unsorted_indices=" + text_or_none(unsorted_indices) +
         ")";
}

std::ostream& operator<<(std::ostream& out, const PackedSequence& packed) {
  return out << packed.str();
}

PackedSequence pack_padded_sequence(const Tensor& input, const Tensor& lengths, const PackOptions& options) {
  const Tensor whole = lengths.to(DType::i64);
  const std::int64_t batch_dim = options.batch_first ? 0 : 1;
  const auto time_first = [&](const Tensor& x) { return options.batch_first ? x.transpose(0, 1) : x; };
  if (options.enforce_sorted) {
    check_lengths_tensor(whole);
    return packed_in_order(time_first(input), whole, {});
  }
  const ValuesIndices order = sort(whole, -1, true);
  const Tensor indices = order.indices.to(input.device());
  check_lengths_tensor(order.values);
  return packed_in_order(time_first(index_select(input, batch_dim, indices)), order.values, indices);
}

PackedSequence pack_padded_sequence(const Tensor& input, const std::vector<std::int64_t>& lengths,
                                    const PackOptions& options) {
  return pack_padded_sequence(input, from_values(lengths, {.device = Device()}), options);
}

PackedSequence pack_padded_sequence(const Tensor& input, const Tensor& lengths, bool batch_first, bool enforce_sorted) {
  return pack_padded_sequence(input, lengths, PackOptions{batch_first, enforce_sorted});
}

PackedSequence pack_sequence(const std::vector<Tensor>& sequences, bool enforce_sorted) {
  Sizes lengths;
  for (const Tensor& sequence : sequences) lengths.push_back(length_of(sequence));
  return pack_padded_sequence(pad_sequence(sequences), lengths, {.enforce_sorted = enforce_sorted});
}

std::pair<Tensor, Tensor> pad_packed_sequence(const PackedSequence& packed, const UnpackOptions& options) {
  const Sizes batch_sizes = packed.sizes_of_steps();
  const auto longest = static_cast<std::int64_t>(batch_sizes.size());
  const std::int64_t steps = options.total_length.value_or(longest);
  if (steps < longest) {
    throw Error(ErrorCode::value,
                "Expected total_length to be at least the length of the longest sequence in input, but got "
                "total_length=" +
                    std::to_string(steps) + " and max sequence length being " + std::to_string(longest));
  }
  Tensor out = padded_rows(packed.data, batch_sizes, steps, options.padding_value);
  Sizes each(static_cast<std::size_t>(batch_sizes[0]), 0);
  for (const std::int64_t batch : batch_sizes) {
    for (std::int64_t i = 0; i < batch; ++i) ++each[static_cast<std::size_t>(i)];
  }
  if (options.batch_first) out = out.transpose(0, 1);
  const Tensor lengths = from_values(each, {.device = Device()});
  if (!packed.unsorted_indices.defined()) return {out, lengths};
  return {index_select(out, options.batch_first ? 0 : 1, packed.unsorted_indices),
          index_select(lengths, 0, packed.unsorted_indices.cpu())};
}

std::pair<Tensor, Tensor> pad_packed_sequence(const PackedSequence& packed, bool batch_first) {
  return pad_packed_sequence(packed, UnpackOptions{.batch_first = batch_first});
}

std::vector<Tensor> unpack_sequence(const PackedSequence& packed) {
  const auto [padded, lengths] = pad_packed_sequence(packed, {.batch_first = true});
  return unpad_sequence(padded, lengths, true);
}

Tensor pad_sequence(const std::vector<Tensor>& sequences, const PadSequenceOptions& options) {
  if (sequences.empty()) throw Error(ErrorCode::runtime, "received an empty list of sequences");
  if (options.padding_side != "left" && options.padding_side != "right") {
    throw Error(ErrorCode::runtime,
                "Expected padding_side to be one of left or right, but got " + options.padding_side + ".");
  }
  std::int64_t longest = 0;
  for (const Tensor& sequence : sequences) longest = std::max(longest, length_of(sequence));
  const auto count = static_cast<std::int64_t>(sequences.size());
  const Tensor& first = sequences[0];
  const Shape front = options.batch_first ? Shape{count, longest} : Shape{longest, count};
  const Tensor out =
      full(with_tail(front, first, 1), options.padding_value, {.dtype = first.dtype(), .device = first.device()});
  for (std::int64_t i = 0; i < count; ++i) {
    const Tensor& sequence = sequences[static_cast<std::size_t>(i)];
    const std::int64_t length = sequence.size(0), start = options.padding_side == "left" ? longest - length : 0;
    out.select(options.batch_first ? 0 : 1, i).narrow(0, start, length).copy_(sequence);
  }
  return out;
}

Tensor pad_sequence(const std::vector<Tensor>& sequences, bool batch_first) {
  return pad_sequence(sequences, PadSequenceOptions{.batch_first = batch_first});
}

std::vector<Tensor> unpad_sequence(const Tensor& padded, const Tensor& lengths, bool batch_first) {
  const Tensor rows = batch_first ? padded : padded.transpose(0, 1);
  const Sizes each = lengths.to_vector<std::int64_t>();
  const auto count = static_cast<std::int64_t>(each.size());
  if (count != rows.size(0)) {
    throw Error(ErrorCode::value, std::string("zip() argument 2 is ") + (count < rows.size(0) ? "shorter" : "longer") +
                                      " than argument 1");
  }
  std::vector<Tensor> result;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t length = std::clamp<std::int64_t>(each[static_cast<std::size_t>(i)], 0, rows.size(1));
    result.push_back(rows.select(0, i).narrow(0, 0, length).clone());
  }
  return result;
}

Tensor invert_permutation(const Tensor& permutation) {
  if (!permutation.defined()) return {};
  const Tensor places = arange(permutation.numel(), {.device = permutation.device()});
  return empty_like(permutation).scatter_(0, permutation, places);
}

}  // namespace core
