// Steps of the optimizers besides SGD and Adam. Which one it is is the same for all lanes: a kernel for each type
// serves them all.
#include "libcore/backend/cuda/kernels/optimizer_lists.h"
#include "libcore/backend/cuda/kernels/tables.h"

namespace core::CORE_KERNELS {
namespace {

enum class Rule : std::uint8_t { rmsprop, adagrad, adadelta, adamax, nadam, radam, asgd, rprop };

/// An element's parameter, gradient and state, as numbers.
template <class W>
struct Element {
  W p, g, state[3];
};

template <class T>
struct AdaptiveUpdate {
  using W = Computed<T>;
  Rule rule;
  StepGradient<W> gradient;
  W rate, shrink, first, first_rest, second, second_rest, third, fourth;

  AdaptiveUpdate(Rule which, const AdaptiveStepParams& p)
      : rule(which),
        gradient({p.options.lr, p.decoupled ? 0 : p.options.weight_decay, p.options.maximize}),
        rate(static_cast<W>(p.options.lr)),
        shrink(p.decoupled ? static_cast<W>(1 - p.options.lr * p.options.weight_decay) : W(1)),
        first(static_cast<W>(p.numbers[0])),
        first_rest(static_cast<W>(1 - p.numbers[0])),
        second(static_cast<W>(p.numbers[1])),
        second_rest(static_cast<W>(1 - p.numbers[1])),
        third(static_cast<W>(p.numbers[2])),
        fourth(static_cast<W>(p.numbers[3])) {}

  using Stored = T;
  static constexpr int kArrays = 5;
  CORE_HD static const void* array(const AdaptiveTensor& tensor, int k) {
    return k == kParameter ? tensor.param : k == kGradient ? tensor.grad : tensor.state[k - 2];
  }
  AdaptiveTensor start(const AdaptiveTensor& tensor, const AdaptiveTensor*) const { return tensor; }
  CORE_BODY const AdaptiveTensor& ready(const AdaptiveTensor& tensor) const { return tensor; }
  CORE_BODY void operator()(const AdaptiveTensor& tensor, W* element) const {
    Element<W> e{element[kParameter] * shrink, 0, {element[2], element[3], element[4]}};
    e.g = gradient(element[kGradient], e.p);
    update(tensor, e);
    element[kParameter] = e.p;
    CORE_UNROLL
    for (int k = 0; k < 3; ++k) element[2 + k] = e.state[k];
  }

 private:
  CORE_BODY void update(const AdaptiveTensor& tensor, Element<W>& e) const {
    switch (rule) {
      case Rule::rmsprop:
        return rmsprop(tensor, e);
      case Rule::adagrad:
        e.state[0] = std::fma(e.g, e.g, e.state[0]);
        e.p -= factor(tensor, 0) * e.g / (std::sqrt(e.state[0]) + first);
        return;
      case Rule::adadelta:
        return adadelta(e);
      case Rule::adamax:
        return adamax(tensor, e);
      case Rule::nadam:
        return nadam(tensor, e);
      case Rule::radam:
        return radam(tensor, e);
      case Rule::asgd:
        return asgd(tensor, e);
      case Rule::rprop:
        return rprop(e);
    }
  }

  CORE_BODY static W factor(const AdaptiveTensor& tensor, int k) { return static_cast<W>(tensor.factors[k]); }

  CORE_BODY void rmsprop(const AdaptiveTensor& tensor, Element<W>& e) const {
    e.state[0] = std::fma(first_rest * e.g, e.g, e.state[0] * first);
    W square = e.state[0];
    if (tensor.state[2] != nullptr) {
      e.state[2] = lerp_between<W>(e.state[2], e.g, first_rest);
      square = std::fma(-e.state[2], e.state[2], square);
    }
    const W average = std::sqrt(square) + second;
    if (tensor.state[1] != nullptr) {
      e.state[1] = e.state[1] * third + e.g / average;
      e.p = std::fma(e.state[1], -rate, e.p);
    } else {
      e.p -= rate * e.g / average;
    }
  }
  CORE_BODY void adadelta(Element<W>& e) const {
    e.state[0] = std::fma(first_rest * e.g, e.g, e.state[0] * first);
    const W delta = std::sqrt(e.state[1] + second) / std::sqrt(e.state[0] + second) * e.g;
    e.state[1] = std::fma(first_rest * delta, delta, e.state[1] * first);
    e.p = std::fma(delta, -rate, e.p);
  }
  CORE_BODY void adamax(const AdaptiveTensor& tensor, Element<W>& e) const {
    e.state[0] = lerp_between<W>(e.state[0], e.g, first_rest);
    e.state[1] = Most()(e.state[1] * second, std::abs(e.g) + third);
    e.p -= factor(tensor, 0) * e.state[0] / e.state[1];
  }
  CORE_BODY void move_moments(Element<W>& e) const {
    e.state[0] = lerp_between<W>(e.state[0], e.g, first_rest);
    e.state[1] = std::fma(second_rest * e.g, e.g, e.state[1] * second);
  }
  CORE_BODY void nadam(const AdaptiveTensor& tensor, Element<W>& e) const {
    move_moments(e);
    const W denominator = std::sqrt(e.state[1] / factor(tensor, 2)) + third;
    e.p += factor(tensor, 0) * e.g / denominator;
    e.p += factor(tensor, 1) * e.state[0] / denominator;
  }
  CORE_BODY void radam(const AdaptiveTensor& tensor, Element<W>& e) const {
    move_moments(e);
    const W rectified = factor(tensor, 1);
    e.p -= rectified == 0 ? factor(tensor, 0) * e.state[0] : rectified * e.state[0] / (std::sqrt(e.state[1]) + third);
  }
  CORE_BODY void asgd(const AdaptiveTensor& tensor, Element<W>& e) const {
    const W eta = factor(tensor, 0), mu = factor(tensor, 1);
    e.p = std::fma(e.g, -eta, e.p * (1 - first * eta));
    e.state[0] = mu == 1 ? e.p : std::fma(e.p - e.state[0], mu, e.state[0]);
  }
  CORE_BODY void rprop(Element<W>& e) const {
    const W product = e.g * e.state[0];
    if (product != 0) e.state[1] *= product > 0 ? second : first;
    e.state[1] = smaller(larger(e.state[1], third), fourth);
    if (product < 0) e.g = 0;
    e.p -= static_cast<W>((W(0) < e.g) - (e.g < W(0))) * e.state[1];
    e.state[0] = e.g;
  }
};

template <class T, Rule kRule>
void step(const AdaptiveStepParams& p) {
  for_each_tensor<AdaptiveTensor>(p, AdaptiveUpdate<T>(kRule, p));
}

}  // namespace

void fill_adaptive_optimizers(OptimizerTable& table) {
  for_floating_types([&]<class T>(std::size_t slot) {
    table.rmsprop[slot] = step<T, Rule::rmsprop>;
    table.adagrad[slot] = step<T, Rule::adagrad>;
    table.adadelta[slot] = step<T, Rule::adadelta>;
    table.adamax[slot] = step<T, Rule::adamax>;
    table.nadam[slot] = step<T, Rule::nadam>;
    table.radam[slot] = step<T, Rule::radam>;
    table.asgd[slot] = step<T, Rule::asgd>;
    table.rprop[slot] = step<T, Rule::rprop>;
  });
}

}  // namespace core::CORE_KERNELS
