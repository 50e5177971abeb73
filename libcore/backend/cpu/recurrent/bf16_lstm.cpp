// The steps of LSTM layers of bf16. For 32 units at a time the sums of their four gates stay in the first cache until
// the gates are taken from them. Rows of a batch do not see each other: they are split over threads, with the same
// results.
#include "libcore/backend/cpu/recurrent/bf16_lstm.h"

#include "libcore/backend/bf16_lstm_params.h"
#include "libcore/backend/cpu/bf16_math.h"
#include "libcore/backend/cpu/gemm/tiles.h"
#include "libcore/backend/cpu/thread_pool.h"

namespace core::cpu::CORE_CPU_VARIANT {
namespace {

constexpr std::int64_t kGates = 4;

CORE_INLINE __mmask16 first_numbers(std::int64_t count) {
  return static_cast<__mmask16>(first_words(std::min(count, kSide)));
}

/// A weight as right operands, one gate after the other.
class GateWeights {
 public:
  GateWeights(const void* weight, std::int64_t hidden, std::int64_t width)
      : steps_(steps_of(width, kDepth)),
        panels_(steps_of(hidden, kPanel)),
        memory_(kGates * panels_ * steps_ * kStepWords) {
    parallel_for(kGates * panels_, 1 + kWordsOfThread / (steps_ * kStepWords),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i) {
                     const Word* gate = static_cast<const Word*>(weight) + i / panels_ * hidden * width;
                     pack_panels({gate, width, hidden, width, true, false}, i % panels_, i % panels_ + 1,
                                 memory_.words() + at(i));
                   }
                 });
  }
  const Word* panel(std::int64_t gate, std::int64_t number) const {
    return memory_.words() + at(gate * panels_ + number);
  }
  std::int64_t steps() const { return steps_; }

 private:
  static constexpr std::int64_t kWordsOfThread = 1 << 16;
  std::int64_t at(std::int64_t i) const { return i * steps_ * kStepWords; }

  std::int64_t steps_, panels_;
  Packed memory_;
};

/// Both biases of each unit, gate by gate, as many for each as there are in whole panels.
class GateBiases {
 public:
  explicit GateBiases(const Bf16LstmParams& p)
      : apart_(steps_of(p.sizes.hidden, kPanel) * kPanel), memory_(kGates * apart_) {
    std::fill_n(memory_.data(), kGates * apart_, 0.0F);
    if (p.b_ih == nullptr) return;
    const std::int64_t n = p.sizes.hidden;
    const auto *first = static_cast<const Word*>(p.b_ih), *second = static_cast<const Word*>(p.b_hh);
    for (std::int64_t gate = 0; gate < kGates; ++gate) {
      for (std::int64_t i = 0; i < n; i += kSide) {
        const __mmask16 mask = first_numbers(n - i);
        store(memory_.data() + gate * apart_ + i,
              widened(mask, first + gate * n + i) + widened(mask, second + gate * n + i));
      }
    }
  }
  CORE_INLINE Floats of(std::int64_t gate, std::int64_t unit) const {
    return load<Floats>(memory_.data() + gate * apart_ + unit);
  }

 private:
  std::int64_t apart_;
  CallMemory memory_;
};

/// Everything that threads share.
struct Bf16Layer {
  const Bf16LstmParams& p;
  GateWeights input, state;
  GateBiases biases;
  explicit Bf16Layer(const Bf16LstmParams& params)
      : p(params),
        input(params.w_ih, params.sizes.hidden, params.input),
        state(params.w_hh, params.sizes.hidden, params.sizes.hidden),
        biases(params) {}
};

/// Rows begin to end - 1 of a batch through all steps.
class Bf16Rows {
 public:
  Bf16Rows(const Bf16Layer& layer, std::int64_t begin, std::int64_t end)
      : layer_(layer),
        p_(layer.p),
        n_(layer.p.sizes.hidden),
        begin_(begin),
        rows_(end - begin),
        row_panels_(steps_of(rows_, kPanel)),
        x_(row_panels_ * layer.input.steps() * kStepWords),
        h_(row_panels_ * layer.state.steps() * kStepWords) {}

  void run() {
    const std::int64_t batch = p_.sizes.batch, steps = p_.sizes.steps;
    for (std::int64_t i = 0; i < rows_; ++i) {
      for (std::int64_t k = 0; k < n_; k += kSide) {
        const __mmask16 mask = first_numbers(n_ - k);
        const Floats c = widened(mask, static_cast<const Word*>(p_.c0) + (begin_ + i) * n_ + k);
        store_up_to(p_.c + (begin_ + i) * n_ + k, c, n_ - k);
      }
    }
    const Word* h = static_cast<const Word*>(p_.h0) + begin_ * n_;
    for (std::int64_t i = 0; i < steps; ++i) {
      const std::int64_t first = (p_.sizes.reverse ? steps - 1 - i : i) * batch + begin_;
      const Word* x = static_cast<const Word*>(p_.x) + first * p_.input;
      pack_panels({x, p_.input, rows_, p_.input, true, true}, 0, row_panels_, x_.words());
      pack_panels({h, n_, rows_, n_, true, true}, 0, row_panels_, h_.words());
      step(first);
      h = static_cast<const Word*>(p_.y) + first * n_;
    }
  }

 private:
  /// Row `first` of the sequence and those behind it.
  void step(std::int64_t first) {
    for (std::int64_t unit = 0; unit < n_; unit += kPanel) {
      for (std::int64_t row = 0; row < rows_; row += kPanel) {
        const std::int64_t rows = std::min(kPanel, rows_ - row);
        const auto multiply = multiply_for(rows, n_ - unit);
        const std::int64_t inputs = layer_.input.steps(), states = layer_.state.steps();
        for (std::int64_t gate = 0; gate < kGates; ++gate) {
          float* sums = sums_ + gate * kBlockSums;
          multiply(x_.words() + row / kPanel * inputs * kStepWords, layer_.input.panel(gate, unit / kPanel), inputs,
                   true, sums);
          multiply(h_.words() + row / kPanel * states * kStepWords, layer_.state.panel(gate, unit / kPanel), states,
                   false, sums);
        }
        for (std::int64_t i = 0; i < rows; ++i) {
          for (std::int64_t half = 0; half < 2 && unit + half * kSide < n_; ++half) {
            take_gates(first + row + i, begin_ + row + i, unit + half * kSide, sums_ + line_at(i, half));
          }
        }
      }
    }
  }

  /// Sixteen units of a row: `at` in the sequence, `of_batch` in a step.
  CORE_INLINE void take_gates(std::int64_t at, std::int64_t of_batch, std::int64_t unit, const float* sums) const {
    const auto sum = [&](std::int64_t gate) __attribute__((always_inline)) {
      return load<Floats>(sums + gate * kBlockSums) + layer_.biases.of(gate, unit);
    };
    const std::int64_t left = n_ - unit;
    const __mmask16 mask = first_numbers(left);
    float* cell = p_.c + of_batch * n_ + unit;
    const Floats in = rough_sigmoid(sum(0)), forget = rough_sigmoid(sum(1));
    const Floats fresh = rough_tanh(sum(2)), out = rough_sigmoid(sum(3));
    const Floats c = forget * load_up_to<Floats>(cell, left) + in * fresh;
    const Floats t = rough_tanh(c), h = out * t;
    store_up_to(cell, c, left);
    const auto rounded = (__m256i)_mm512_cvtneps_pbh((__m512)h);
    _mm256_mask_storeu_epi16(static_cast<Word*>(p_.y) + at * n_ + unit, mask, rounded);
    if (p_.gates == nullptr) return;
    float* gates = static_cast<float*>(p_.gates) + at * kGates * n_ + unit;
    store_up_to(gates, in, left);
    store_up_to(gates + n_, forget, left);
    store_up_to(gates + 2 * n_, fresh, left);
    store_up_to(gates + 3 * n_, out, left);
    store_up_to(static_cast<float*>(p_.cells) + at * n_ + unit, c, left);
    store_up_to(static_cast<float*>(p_.tanhs) + at * n_ + unit, t, left);
    const Floats kept = widened(mask, static_cast<const Word*>(p_.y) + at * n_ + unit);
    store_up_to(static_cast<float*>(p_.hidden) + at * n_ + unit, kept, left);
  }

  const Bf16Layer& layer_;
  const Bf16LstmParams& p_;
  std::int64_t n_, begin_, rows_, row_panels_;
  Packed x_, h_;
  alignas(64) float sums_[kGates * kBlockSums];
};

void bf16_lstm(const LstmParams& params) {
  const auto& p = static_cast<const Bf16LstmParams&>(params);
  constexpr std::int64_t kWork = std::int64_t{1} << 24, kFewest = kSide;  // below, tiles are not full
  const Bf16Layer layer(p);
  const std::int64_t row = p.sizes.steps * kGates * p.sizes.hidden * (p.sizes.hidden + p.input);
  parallel_for(p.sizes.batch, std::max(kFewest, kWork / std::max<std::int64_t>(1, row)),
               [&](std::int64_t begin, std::int64_t end) {
                 const TilesInUse in_use;
                 Bf16Rows(layer, begin, end).run();
               });
}

}  // namespace

void fill_bf16_lstm(RecurrentTable& table) {
  table.lstm[static_cast<std::size_t>(DType::bf16)] = bf16_lstm;
}

}  // namespace core::cpu::CORE_CPU_VARIANT
