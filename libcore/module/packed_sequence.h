#pragma once
// Sequences of different lengths, as torch.nn.utils.rnn: padded into one tensor, or packed without padding for RNN,
// LSTM and GRU. Packed rows go step by step: the first element of every sequence, then the second of those that have
// one. Thread safety: pure functions. Errors: PyTorch's texts. Use: core::PackedSequence packed =
// core::pack_padded_sequence(x, {5, 3, 2}, {.batch_first = true});
//      auto [out, state] = core::LSTM(8, 16)(packed);
//      auto [padded, lengths] = core::pad_packed_sequence(out, {.batch_first = true});

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "libcore/base/device.h"
#include "libcore/base/dtype.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core {

/// Made by the functions below.
struct PackedSequence {
  Tensor data;                   ///< (all elements, features...)
  Tensor batch_sizes;            ///< how many sequences have a step i: int64 on the CPU, never growing
  Tensor sorted_indices = {};    ///< undefined where the sequences came in order of length
  Tensor unsorted_indices = {};  ///< the way back

  PackedSequence() = default;
  /// Without the last one it is computed. Error(value) "batch_sizes should always be on CPU. ...". Sizes that do not
  /// fit the rows are an error where they are used.
  PackedSequence(Tensor rows, Tensor sizes, Tensor sorted = {}, Tensor unsorted = {});

  /// Data, and the indices by device alone.
  PackedSequence to(const ToOptions& options) const;
  PackedSequence to(Device device) const { return to(ToOptions{.device = device}); }
  PackedSequence to(DType dtype) const { return to(ToOptions{.dtype = dtype}); }
  PackedSequence cpu() const { return to(Device()); }
  PackedSequence cuda(int index = 0) const { return to(Device(DeviceType::cuda, index)); }
  PackedSequence pin_memory() const;
  bool is_cuda() const { return data.is_cuda(); }
  /// batch_sizes as numbers. Error(value) unless they begin above 0, never grow and add up to the rows.
  std::vector<std::int64_t> sizes_of_steps() const;
  /// For hooks of modules: what a layer computed.
  std::tuple<Tensor&> tensor_parts() { return {data}; }
  /// "PackedSequence(data=tensor([...]), batch_sizes=tensor([...]), sorted_indices=None, unsorted_indices=None)".
  std::string str() const;
};
std::ostream& operator<<(std::ostream& out, const PackedSequence& packed);

struct PackOptions {
  bool batch_first = false;    ///< (batch, time, ...) instead of (time, batch, ...)
  bool enforce_sorted = true;  ///< false: sorted by length here
};
/// lengths: one a sequence, int64 on the CPU.
PackedSequence pack_padded_sequence(const Tensor& input, const Tensor& lengths, const PackOptions& options = {});
PackedSequence pack_padded_sequence(const Tensor& input, const std::vector<std::int64_t>& lengths,
                                    const PackOptions& options = {});
PackedSequence pack_padded_sequence(const Tensor& input, const Tensor& lengths, bool batch_first,
                                    bool enforce_sorted = true);
PackedSequence pack_sequence(const std::vector<Tensor>& sequences, bool enforce_sorted = true);

struct UnpackOptions {
  bool batch_first = false;
  Scalar padding_value = 0.0;
  std::optional<std::int64_t> total_length = {};  ///< steps of the result; those of the longest sequence
};
/// The sequences in their first order, and their lengths (int64, CPU).
std::pair<Tensor, Tensor> pad_packed_sequence(const PackedSequence& packed, const UnpackOptions& options = {});
std::pair<Tensor, Tensor> pad_packed_sequence(const PackedSequence& packed, bool batch_first);
std::vector<Tensor> unpack_sequence(const PackedSequence& packed);

struct PadSequenceOptions {
  bool batch_first = false;
  double padding_value = 0;
  std::string padding_side = "right";  ///< or "left"
};
/// Sequences (length, ...) as one tensor (longest, count, ...).
Tensor pad_sequence(const std::vector<Tensor>& sequences, const PadSequenceOptions& options = {});
Tensor pad_sequence(const std::vector<Tensor>& sequences, bool batch_first);
/// The other way. PyTorch's also swaps the first two dimensions of its argument unless batch_first; this one does not.
std::vector<Tensor> unpad_sequence(const Tensor& padded, const Tensor& lengths, bool batch_first = false);

/// p[q[i]] == i.
Tensor invert_permutation(const Tensor& permutation);

}  // namespace core
