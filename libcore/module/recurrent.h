#pragma once
// RNN, LSTM, GRU and their cells. As torch.nn's modules of the same names. The layers take a PackedSequence too, and
// give one (packed_sequence.h); states are then in the order of the sequences. Thread safety: as Module. Use:
// core::LSTM lstm(16, 32, {.num_layers = 2});
//   auto [y, state] = lstm(x);                    // x: (time, batch, 16), y: (time, batch, 32)
//   auto [h, c] = state;                          // (layers * directions, batch, 32) each

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "libcore/module/module.h"
#include "libcore/module/packed_sequence.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/recurrent.h"
#include "libcore/tensor/tensor.h"

namespace core {

struct RecurrentOptions {
  std::int64_t num_layers = 1;
  bool bias = true;
  bool batch_first = false;  ///< x and y are (batch, time, features); states are not affected
  double dropout = 0;        ///< between layers, in training
  bool bidirectional = false;
  std::int64_t proj_size = 0;         ///< LSTM alone
  std::string nonlinearity = "tanh";  ///< RNN alone: or "relu"
  std::optional<DType> dtype = {};
  std::optional<Device> device = {};
};

/// What the three share. Parameters per layer k and direction: weight_ih_lk, weight_hh_lk, bias_ih_lk, bias_hh_lk,
/// weight_hr_lk, with _reverse behind for the second direction.
class RecurrentBase {
 public:
  std::int64_t input_size;
  std::int64_t hidden_size;
  RecurrentOptions options;

  /// All parameters uniform in +-1 / sqrt(hidden_size).
  void reset_parameters();
  /// The parameter of that name. Error(attribute) when there is none.
  Parameter& operator[](const std::string& name);

 protected:
  struct Output {
    Tensor y, h, c;
  };
  /// Errors (value): PyTorch's texts for dropout, sizes, projection and nonlinearity.
  RecurrentBase(const char* name, RecurrentKind kind, std::int64_t in, std::int64_t hidden,
                const RecurrentOptions& given);
  void list(Members& m);
  std::string describe() const;
  /// Undefined states are zeros. Errors: PyTorch's texts for ranks, sizes, dtypes and devices.
  Output run(const Tensor& x, const Tensor& h0, const Tensor& c0, bool training) const;
  /// y: packed rows.
  Output run(const PackedSequence& x, const Tensor& h0, const Tensor& c0, bool training) const;

 private:
  struct Start {
    Tensor h, c;
  };
  void make_parameters();
  std::int64_t directions() const { return options.bidirectional ? 2 : 1; }
  std::int64_t output_size() const { return options.proj_size > 0 ? options.proj_size : hidden_size; }
  RecurrentWeights weights(std::int64_t layer, std::int64_t direction) const;
  void check_input(const Tensor& x) const;
  void check_state_ranks(const Tensor& x, const Tensor& h0, const Tensor& c0) const;
  void check_states(const Tensor& x, std::int64_t samples, const Start& start) const;
  void check_rank(const Tensor& x, std::int64_t wanted) const;
  /// batch_sizes: of packed rows; null for (time, batch, in).
  Output run_layers(const Tensor& x, const Start& start, bool training,
                    const std::vector<std::int64_t>* batch_sizes) const;

  const char* name_;
  RecurrentKind kind_;
  std::vector<std::pair<std::string, Parameter>> parameters_;
};

/// h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu.
struct RNN : ModuleOf<RNN>, RecurrentBase {
  RNN(std::int64_t in, std::int64_t hidden, const RecurrentOptions& given = {});
  template <std::integral Layers>
  RNN(std::int64_t in, std::int64_t hidden, Layers layers) : RNN(in, hidden, RecurrentOptions{.num_layers = layers}) {}
  void members(Members& m) override { list(m); }
  std::string extra_repr() const override { return describe(); }
  std::tuple<Tensor, Tensor> forward(const Tensor& x, const Tensor& h0 = {}) const;
  std::tuple<PackedSequence, Tensor> forward(const PackedSequence& x, const Tensor& h0 = {}) const;
};

struct LSTM : ModuleOf<LSTM>, RecurrentBase {
  LSTM(std::int64_t in, std::int64_t hidden, const RecurrentOptions& given = {});
  template <std::integral Layers>
  LSTM(std::int64_t in, std::int64_t hidden, Layers layers)
      : LSTM(in, hidden, RecurrentOptions{.num_layers = layers}) {}
  void members(Members& m) override { list(m); }
  std::string extra_repr() const override { return describe(); }
  std::tuple<Tensor, std::tuple<Tensor, Tensor>> forward(const Tensor& x,
                                                         const std::tuple<Tensor, Tensor>& state = {}) const;
  std::tuple<PackedSequence, std::tuple<Tensor, Tensor>> forward(const PackedSequence& x,
                                                                 const std::tuple<Tensor, Tensor>& state = {}) const;
};

struct GRU : ModuleOf<GRU>, RecurrentBase {
  GRU(std::int64_t in, std::int64_t hidden, const RecurrentOptions& given = {});
  template <std::integral Layers>
  GRU(std::int64_t in, std::int64_t hidden, Layers layers) : GRU(in, hidden, RecurrentOptions{.num_layers = layers}) {}
  void members(Members& m) override { list(m); }
  std::string extra_repr() const override { return describe(); }
  std::tuple<Tensor, Tensor> forward(const Tensor& x, const Tensor& h0 = {}) const;
  std::tuple<PackedSequence, Tensor> forward(const PackedSequence& x, const Tensor& h0 = {}) const;
};

struct CellOptions {
  bool bias = true;
  std::string nonlinearity = "tanh";  ///< RNNCell alone: or "relu"
  std::optional<DType> dtype = {};
  std::optional<Device> device = {};
};

/// What the cells share: weight_ih, weight_hh, bias_ih, bias_hh.
class CellBase {
 public:
  std::int64_t input_size;
  std::int64_t hidden_size;
  CellOptions options;
  Parameter weight_ih, weight_hh;
  Parameter bias_ih, bias_hh;  ///< undefined when there is none

  void reset_parameters();

 protected:
  CellBase(const char* name, std::int64_t gates, std::int64_t in, std::int64_t hidden, const CellOptions& given);
  void list(Members& m);
  std::string describe() const;
  RecurrentWeights weights() const { return {weight_ih, weight_hh, bias_ih, bias_hh}; }
  /// x and the state (zeros when undefined) as batches. Errors: PyTorch's texts for ranks and sizes.
  struct Batch {
    Tensor x, h, c;
    bool single;  ///< x was one sample
  };
  Batch batch(const Tensor& x, const Tensor& h, const Tensor& c) const;

 private:
  const char* name_;
};

/// x: (batch, in) or (in).
struct RNNCell : ModuleOf<RNNCell>, CellBase {
  RNNCell(std::int64_t in, std::int64_t hidden, const CellOptions& given = {});
  void members(Members& m) override { list(m); }
  std::string extra_repr() const override { return describe(); }
  Tensor forward(const Tensor& x, const Tensor& h = {}) const;
};

struct LSTMCell : ModuleOf<LSTMCell>, CellBase {
  LSTMCell(std::int64_t in, std::int64_t hidden, const CellOptions& given = {});
  void members(Members& m) override { list(m); }
  std::string extra_repr() const override { return describe(); }
  std::tuple<Tensor, Tensor> forward(const Tensor& x, const std::tuple<Tensor, Tensor>& state = {}) const;
};

struct GRUCell : ModuleOf<GRUCell>, CellBase {
  GRUCell(std::int64_t in, std::int64_t hidden, const CellOptions& given = {});
  void members(Members& m) override { list(m); }
  std::string extra_repr() const override { return describe(); }
  Tensor forward(const Tensor& x, const Tensor& h = {}) const;
};

// Made once, in the source of this header.
extern template class ModuleOf<RNN>;
extern template class ModuleOf<LSTM>;
extern template class ModuleOf<GRU>;
extern template class ModuleOf<RNNCell>;
extern template class ModuleOf<LSTMCell>;
extern template class ModuleOf<GRUCell>;

}  // namespace core
