// The emulated CUDA kernels of attention, recurrent layers and optimizers against the CPU's.
#include <limits>

#include "libcore/backend/optimizer_table.h"
#include "libcore/backend/recurrent_table.h"
#include "tests/libcore/backend/cuda/nn_parity.h"

namespace core::parity {
namespace {

// Attention.

/// Several tiles of queries and keys; rows so wide that tiles are smaller.
const std::vector<AttentionSizes> kHeads{{2, 2, 5, 5, 4, 0.5, false},    {1, 2, 3, 100, 33, 0.2, false},
                                         {1, 1, 70, 70, 8, 0.3, true},   {1, 1, 130, 65, 6, 0.3, true},
                                         {1, 1, 40, 40, 130, 0.1, true}, {1, 1, 20, 18, 300, 0.05, false}};

/// (batch, rows, heads, width) as heads lie before they are brought together, or (batch, heads, rows, width).
AttentionArray laid_out(const AttentionSizes& s, std::int64_t rows, bool together, const void* data) {
  const std::int64_t item = s.heads * rows * s.width;
  return together ? AttentionArray{data, item, rows * s.width, s.width}
                  : AttentionArray{data, item, s.width, s.heads * s.width};
}

/// What a head has: f32 is what the CPU computes in.
template <class T>
struct HeadArrays {
  AttentionSizes s;
  bool together;
  std::int64_t q_count = s.batch * s.heads * s.queries * s.width, k_count = s.batch * s.heads * s.keys * s.width;
  Both<T> q = random_array<T>(q_count), k = random_array<T>(k_count), v = random_array<T>(k_count);
  Both<T> out = garbage<T>(q_count);
  Both<float> log_sums = garbage<float>(s.batch * s.heads * s.queries);

  AttentionArray queries(const void* data) const { return laid_out(s, s.queries, together, data); }
  AttentionArray keys(const void* data) const { return laid_out(s, s.keys, together, data); }
  void run() {
    run_both<T>(&NnTable::attention,
                AttentionParams{s, queries(q.device.data()), keys(k.device.data()), keys(v.device.data()),
                                queries(out.device.data()), log_sums.device.data()},
                AttentionParams{s, queries(q.host.data()), keys(k.host.data()), keys(v.host.data()),
                                queries(out.host.data()), log_sums.host.data()});
  }
};

template <class Kind>
class AttentionParity : public Parity<Kind> {};
using AttentionTypes = testing::Types<On<float, 1>, On<Half, 1>, On<BFloat16, 1>, On<float, 4>, On<Half, 4>>;
TYPED_TEST_SUITE(AttentionParity, AttentionTypes);

TYPED_TEST(AttentionParity, Forward) {
  using T = typename TypeParam::Element;
  for (const AttentionSizes& s : some<TypeParam>(kHeads, 2)) {
    for (const bool together : {true, false}) {
      HeadArrays<T> a{.s = s, .together = together};
      a.run();
      EXPECT_TRUE(is_near(a.out, 1e-5)) << s.queries;
      EXPECT_TRUE(is_near(a.log_sums, 1e-5)) << s.queries;
    }
  }
}

/// Where a team can share less, tiles are smaller.
TYPED_TEST(AttentionParity, ForwardInLittleMemory) {
  using T = typename TypeParam::Element;
  const test::SharedLimit little(24 << 10);
  for (const AttentionSizes& s :
       {AttentionSizes{1, 2, 70, 70, 40, 0.2, true}, AttentionSizes{1, 1, 20, 130, 64, 0.1, false}}) {
    HeadArrays<T> a{.s = s, .together = true};
    a.run();
    EXPECT_TRUE(is_near(a.out, 1e-5)) << s.queries;
    EXPECT_TRUE(is_near(a.log_sums, 1e-5)) << s.queries;
  }
}

TYPED_TEST(AttentionParity, Grads) {
  using T = typename TypeParam::Element;
  const double near = std::is_same_v<T, BFloat16> ? 1.6e-2 : 2e-5;  // weights and slopes are rounded to eight bits
  for (const AttentionSizes& s : some<TypeParam>(kHeads, 2)) {
    HeadArrays<T> a{.s = s, .together = s.heads == 1};
    a.run();
    const auto g = random_array<T>(a.q_count);
    auto of_q = garbage<T>(a.q_count), of_k = garbage<T>(a.k_count), of_v = garbage<T>(a.k_count);
    const auto params = [&](auto side) {
      return AttentionGradParams{s,
                                 a.queries(side(a.q)),
                                 a.keys(side(a.k)),
                                 a.keys(side(a.v)),
                                 a.queries(side(a.out)),
                                 a.queries(side(g)),
                                 a.log_sums.host.data(),
                                 a.queries(side(of_q)),
                                 a.keys(side(of_k)),
                                 a.keys(side(of_v))};
    };
    run_both<T>(&NnTable::attention_grad,
                params([](const auto& x) { return static_cast<const void*>(x.device.data()); }),
                params([](const auto& x) { return static_cast<const void*>(x.host.data()); }));
    EXPECT_TRUE(is_near(of_q, near)) << s.queries;
    EXPECT_TRUE(is_near(of_k, near)) << s.queries;
    EXPECT_TRUE(is_near(of_v, near)) << s.queries;
  }
}

TEST(AttentionParityF32, AScoreOfNothingCountsForNothing) {
  const float infinity = std::numeric_limits<float>::infinity();
  HeadArrays<float> a{.s = {1, 1, 2, 70, 1, 1.0, false}, .together = true};
  a.q.set(0, 1), a.q.set(1, 1);
  for (std::size_t i = 0; i < 65; ++i) a.k.set(i, -infinity);  // the whole first tile
  a.run();
  EXPECT_TRUE(is_near(a.out, 1e-5));
  EXPECT_FALSE(std::isnan(a.out.device[0]));
}

// Recurrent layers.

const RecurrentTable& emulated_recurrent() {
  static const RecurrentTable table = [] {
    RecurrentTable filled;
    emulated_kernels::fill_recurrent(filled);
    return filled;
  }();
  return table;
}

/// Weights that a team can share, and such that are too many.
const std::vector<RecurrentSizes> kLayers{{3, 2, 5, false}, {4, 3, 7, true}, {2, 5, 150, false}, {2, 2, 160, true}};

template <class T>
struct LayerArrays {
  RecurrentSizes s;
  std::int64_t states = s.batch * s.hidden;
  Both<T> w = random_array<T>(4 * s.hidden * s.hidden, 0.1), h0 = random_array<T>(states), c0 = random_array<T>(states);
  Both<T> gates = random_array<T>(s.steps * states * 4), cells = garbage<T>(s.steps * states);
  Both<T> tanhs = cells, hidden = cells;

  void run() {
    const auto params = [&](auto side) {
      return LstmParams{s, side(w), side(h0), side(c0), side(gates), side(cells), side(tanhs), side(hidden)};
    };
    emulated_recurrent().lstm[slot<T>()](params([](auto& x) { return static_cast<void*>(x.device.data()); }));
    cpu_op_tables().recurrent->lstm[slot<Computed<T>>()](
        params([](auto& x) { return static_cast<void*>(x.host.data()); }));
  }
};

template <class Kind>
class RecurrentParity : public Parity<Kind> {};
TYPED_TEST_SUITE(RecurrentParity, FloatingTypes);

TYPED_TEST(RecurrentParity, Lstm) {
  using T = typename TypeParam::Element;
  for (const RecurrentSizes& s : some<TypeParam>(kLayers, 2)) {
    LayerArrays<T> a{.s = s};
    a.run();
    for (const auto* array : {&a.gates, &a.cells, &a.tanhs, &a.hidden}) EXPECT_TRUE(is_near(*array, 1e-5)) << s.hidden;
  }
}

TYPED_TEST(RecurrentParity, LstmGrad) {
  using T = typename TypeParam::Element;
  for (const RecurrentSizes& s : some<TypeParam>(kLayers, 2)) {
    for (const bool with_output : {true, false}) {
      LayerArrays<T> a{.s = s};
      for (const auto* x : {&a.cells, &a.tanhs, &a.gates}) {
        auto& array = const_cast<Both<T>&>(*x);
        array = random_array<T>(static_cast<std::int64_t>(array.host.size()), 0.3);
      }
      const auto g = random_array<T>(s.steps * a.states);
      auto sums = garbage<T>(s.steps * a.states * 4), h = random_array<T>(a.states), c = random_array<T>(a.states);
      const auto params = [&](auto side) {
        return LstmGradParams{s,
                              side(a.w),
                              side(a.c0),
                              side(a.gates),
                              side(a.cells),
                              side(a.tanhs),
                              with_output ? side(g) : nullptr,
                              side(sums),
                              side(h),
                              side(c)};
      };
      emulated_recurrent().lstm_grad[slot<T>()](
          params([](auto& x) { return const_cast<void*>(static_cast<const void*>(x.device.data())); }));
      cpu_op_tables().recurrent->lstm_grad[slot<Computed<T>>()](
          params([](auto& x) { return const_cast<void*>(static_cast<const void*>(x.host.data())); }));
      for (const auto* array : {&sums, &h, &c}) EXPECT_TRUE(is_near(*array, 2e-5)) << s.hidden;
    }
  }
}

// Optimizers.

const OptimizerTable& emulated_optimizers() {
  static const OptimizerTable table = [] {
    OptimizerTable filled;
    emulated_kernels::fill_optimizers(filled);
    return filled;
  }();
  return table;
}

/// A parameter with its state.
template <class T>
struct Parameter {
  std::int64_t count;
  double step;
  Both<T> p = random_array<T>(count), g = random_array<T>(count), m = random_array<T>(count, 0.1);
  Both<T> v = Both<T>(count), top = Both<T>(count);

  Parameter(std::int64_t count_, double step_) : count(count_), step(step_) {
    for (std::size_t i = 0; i < p.host.size(); ++i) {
      v.set(i, std::abs(g.host[i]));
      top.set(i, std::abs(p.host[i]));
    }
  }
};

/// More than one launch takes; empty, small, and of several teams.
template <class T>
std::vector<Parameter<T>> parameters() {
  std::vector<Parameter<T>> all;
  for (int i = 0; i < 300; ++i) all.emplace_back(i == 3 ? 0 : i == 35 ? 40000 : 1 + i, 1 + i / 10);
  return all;
}

template <class Kind>
class OptimizerParity : public Parity<Kind> {};
TYPED_TEST_SUITE(OptimizerParity, FloatingTypes);

struct SgdCase {
  double decay, momentum, dampening;
  bool nesterov, maximize, first;
};

TYPED_TEST(OptimizerParity, Sgd) {
  using T = typename TypeParam::Element;
  const SgdCase cases[] = {{0, 0, 0, false, false, false},
                           {0.1, 0.9, 0.2, false, true, false},
                           {0.1, 0.9, 0, true, false, false},
                           {0, 0.9, 0, false, false, true}};
  for (const SgdCase& how : cases) {
    std::vector<Parameter<T>> all = parameters<T>();
    std::vector<SgdTensor> tensors;
    for (Parameter<T>& a : all) {
      const SgdTensor on_cpu{a.count, a.p.host.data(), a.g.host.data(), how.momentum != 0 ? a.m.host.data() : nullptr,
                             nullptr, how.first};
      tensors.push_back({a.count, a.p.device.data(), a.g.device.data(), how.momentum != 0 ? a.m.device.data() : nullptr,
                         nullptr, how.first});
      cpu_op_tables().optimizer->sgd[slot<Computed<T>>()](
          {{0.05, how.decay, how.maximize}, how.momentum, how.dampening, how.nesterov, &on_cpu, 1});
    }
    emulated_optimizers().sgd[slot<T>()]({{0.05, how.decay, how.maximize},
                                          how.momentum,
                                          how.dampening,
                                          how.nesterov,
                                          tensors.data(),
                                          static_cast<std::int64_t>(tensors.size())});
    for (const Parameter<T>& a : all) {
      EXPECT_TRUE(is_near(a.p, 1e-7));
      EXPECT_TRUE(is_near(a.m, 1e-7));
    }
  }
}

struct AdamCase {
  double decay;
  bool decoupled, amsgrad, maximize;
  bool counted;  ///< steps and learning rate are read from memory
};
constexpr double kRate = 0.05;

template <class T>
void check_adam(const AdamCase& how) {
  std::vector<Parameter<T>> all = parameters<T>();
  std::vector<AdamTensor> tensors;
  std::vector<float> counters;
  for (const Parameter<T>& a : all) counters.push_back(static_cast<float>(a.step - 1));
  for (std::size_t i = 0; i < all.size(); ++i) {
    Parameter<T>& a = all[i];
    tensors.push_back({a.count, a.p.device.data(), a.g.device.data(), a.m.device.data(), a.v.device.data(),
                       how.amsgrad ? a.top.device.data() : nullptr, how.counted ? 0 : a.step,
                       how.counted ? &counters[i] : nullptr, how.counted ? &kRate : nullptr});
    const AdamTensor on_cpu{a.count,         a.p.host.data(), a.g.host.data(),
                            a.m.host.data(), a.v.host.data(), how.amsgrad ? a.top.host.data() : nullptr,
                            a.step,          nullptr,         nullptr};
    cpu_op_tables().optimizer->adam[slot<Computed<T>>()](
        {{kRate, how.decay, how.maximize}, 0.9, 0.99, 1e-8, how.decoupled, &on_cpu, 1});
  }
  emulated_optimizers().adam[slot<T>()]({{how.counted ? -1 : kRate, how.decay, how.maximize},
                                         0.9,
                                         0.99,
                                         1e-8,
                                         how.decoupled,
                                         tensors.data(),
                                         static_cast<std::int64_t>(tensors.size())});
  for (const Parameter<T>& a : all) {
    for (const auto* array : {&a.p, &a.m, &a.v, &a.top}) EXPECT_TRUE(is_near(*array, 1e-6));
  }
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(counters[i], all[i].step - (how.counted ? 0 : 1));
}

TYPED_TEST(OptimizerParity, Adam) {
  using T = typename TypeParam::Element;
  for (const AdamCase& how : {AdamCase{0, false, false, false, false}, AdamCase{0.1, false, true, true, false},
                              AdamCase{0.1, true, false, false, false}, AdamCase{0.1, true, true, false, true}}) {
    check_adam<T>(how);
  }
}

}  // namespace
}  // namespace core::parity
