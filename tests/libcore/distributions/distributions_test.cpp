// Distributions as users write them: calls, printing, errors, classes of one's own. Numbers beside PyTorch's are
// golden_distributions.
#include "libcore/distributions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "libcore/base/warning.h"
#include "libcore/core.h"
#include "tests/support/message_of.h"

namespace {

namespace dist = core::distributions;
using core::Tensor;
using test::message_of;

template <class T>
std::string printed(const T& value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

TEST(Distributions, PrintAsPyTorch) {
  EXPECT_EQ(printed(dist::Normal(0, 1)), "Normal(loc: 0.0, scale: 1.0)");
  EXPECT_EQ(printed(dist::Normal(core::zeros({3}), 1.0)), "Normal(loc: torch.Size([3]), scale: torch.Size([3]))");
  EXPECT_EQ(printed(dist::Bernoulli({.logits = core::zeros({2})})), "Bernoulli(logits: torch.Size([2]))");
  EXPECT_EQ(printed(dist::Independent(dist::Normal(core::zeros({2}), 1.0), 1)),
            "Independent(Normal(loc: torch.Size([2]), scale: torch.Size([2])), 1)");
  EXPECT_EQ(printed(dist::SigmoidTransform().inv()), "_InverseTransform(SigmoidTransform())");
  EXPECT_EQ(printed(dist::constraints::interval(0.0, 2)), "Interval(lower_bound=0.0, upper_bound=2)");
}

TEST(Distributions, RefuseWhatDoesNotFit) {
  EXPECT_EQ(message_of([] {
              dist::Normal(0.0, core::tensor({1.0, -1.0}));
            }),
            "Expected parameter scale (Tensor of shape (2,)) of distribution Normal(loc: torch.Size([2]), scale: "
            "torch.Size([2])) to satisfy the constraint GreaterThan(lower_bound=0.0), but found invalid "
            "values:\ntensor([ 1., -1.])");
  EXPECT_EQ(message_of([] {
              dist::Categorical(core::tensor({0.5, 0.5})).log_prob(core::tensor(2));
            }),
            "Expected value argument (Tensor of shape ()) to be within the support (IntegerInterval(lower_bound=0, "
            "upper_bound=1)) of the distribution Categorical(probs: torch.Size([2])), but found invalid values:\n2");
  EXPECT_EQ(message_of([] { dist::Poisson(1.0).rsample(); }), "Poisson does not implement rsample");
  EXPECT_EQ(message_of([] { dist::kl_divergence(dist::Beta(1.0, 1.0), dist::Laplace(0.0, 1.0)); }),
            "No KL(p || q) is implemented for p type Beta and q type Laplace");
}

TEST(Distributions, ShapesThatMakeNoSenseAreRefused) {
  EXPECT_EQ(message_of([] {
              dist::Gamma(1.0, 1.0).sample({3, -2});
            }),
            "The expanded size of the tensor (-2) isn't allowed in a leading, non-existing dimension 1");
  EXPECT_EQ(message_of([] { dist::Independent(dist::Normal(core::zeros({2}), 1.0), -1); }),
            "reinterpreted_batch_ndims must be >= 0, got -1");
  const std::string few = "Too few dimensions on input";
  EXPECT_EQ(message_of([] { dist::ReshapeTransform({2}, {2, 1})(core::tensor(1.0)); }), few);
  EXPECT_EQ(message_of([] { dist::StickBreakingTransform()(core::tensor(1.0)); }), few);
  const dist::AffineTransform matrix(0.0, 2.0, {.event_dim = 2});
  EXPECT_NE(message_of([&] { matrix.log_abs_det_jacobian(core::ones({2}), core::ones({2})); }), "no error");
}

TEST(Distributions, AnUndefinedTensorIsNone) {
  const std::string none = "Expected a proper Tensor but got None (or an undefined Tensor in C++)";
  EXPECT_EQ(message_of([] { dist::Normal(Tensor(), 1.0); }), none);
  EXPECT_EQ(message_of([] { dist::Exponential{Tensor()}; }), none);
  EXPECT_EQ(message_of([] { dist::Categorical{Tensor()}; }),
            "Either `probs` or `logits` must be specified, but not both.");
  EXPECT_EQ(printed(dist::Bernoulli({.probs = Tensor(), .logits = 0.5})), "Bernoulli(logits: 0.5)");
}

TEST(Distributions, CheckNothingWhereTheyAreTold) {
  const dist::Normal odd(0.0, core::tensor({-1.0}), {.validate_args = false});
  EXPECT_TRUE(std::isnan(odd.log_prob(core::tensor({0.0})).item<double>()));
  dist::Distribution::set_default_validate_args(false);
  const std::string said = message_of([] { dist::Exponential(-1.0); });
  dist::Distribution::set_default_validate_args(true);
  EXPECT_EQ(said, "no error");
  EXPECT_NE(message_of([] { dist::Exponential(-1.0); }), "no error");
}

TEST(Distributions, DrawsFollowTheSeedAndTheShape) {
  core::manual_seed(3);
  const Tensor first = dist::Gamma(core::tensor({0.5, 3.0}), 2.0).sample({4, 5});
  EXPECT_EQ(first.sizes(), (core::Shape{4, 5, 2}));
  EXPECT_FALSE(first.requires_grad());
  core::manual_seed(3);
  EXPECT_TRUE(dist::Gamma(core::tensor({0.5, 3.0}), 2.0).sample({4, 5}).equal(first));
  EXPECT_EQ(dist::Categorical(core::ones({3, 4})).sample(7).sizes(), (core::Shape{7, 3}));
}

TEST(Distributions, MeansOfManyDrawsAreTheirMeans) {
  core::manual_seed(0);
  const auto mean_of = [](const dist::Distribution& d) { return d.sample({20000}).mean().item<double>(); };
  EXPECT_NEAR(mean_of(dist::Gamma(0.3, 2.0)), 0.15, 0.01);
  EXPECT_NEAR(mean_of(dist::Beta(2.0, 6.0)), 0.25, 0.01);
  EXPECT_NEAR(mean_of(dist::Poisson(30.0)), 30, 0.2);
  EXPECT_NEAR(mean_of(dist::Binomial(100, 0.3)), 30, 0.2);
  EXPECT_NEAR(mean_of(dist::Binomial(8, 0.9)), 7.2, 0.05);
}

TEST(Distributions, RareParametersNeitherHangNorFail) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  core::standard_gamma(core::tensor({nan, 0.0, 1e-30}));
  EXPECT_TRUE(std::isnan(core::binomial(core::tensor({4.0}), core::tensor({nan})).item<double>()));
  EXPECT_NEAR(core::poisson(core::tensor({1e30})).item<double>() / 1e30, 1, 1e-6);  // beyond int64
  EXPECT_EQ(message_of([&] { core::poisson(core::tensor({nan})); }),
            "invalid Poisson rate, expected rate to be non-negative");
  EXPECT_EQ(message_of([] { core::poisson(core::tensor({2})); }), "\"poisson_cpu\" not implemented for 'Long'");
}

TEST(Distributions, ReparametrizedDrawsHaveGradients) {
  const Tensor mean = core::zeros({3}).requires_grad_(), width = core::ones({3}).requires_grad_();
  core::manual_seed(0);
  dist::Independent(dist::Normal(mean, width), 1).rsample({2}).sum().backward();
  EXPECT_EQ(mean.grad().to_vector<float>(), (std::vector<float>{2, 2, 2}));
  const Tensor z = dist::Beta(core::tensor({2.0}).requires_grad_(), 3.0).rsample();
  EXPECT_EQ(z.grad_fn_name(), "SelectBackward0");
}

TEST(Distributions, ACacheGivesBackWhatWentIn) {
  const dist::TanhTransform plain, kept({.cache_size = 1});
  const Tensor x = core::tensor({20.0, -30.0});  // whose tanh is 1 and -1
  EXPECT_TRUE(kept.inv()(kept(x)).is_same(x));
  EXPECT_TRUE(plain.inv()(plain(x)).isinf().all().item<bool>());
  EXPECT_EQ(message_of([] { dist::TanhTransform({.cache_size = 2}); }), "cache_size must be 0 or 1");
  EXPECT_TRUE(dist::ExpTransform() == dist::ExpTransform());
  EXPECT_FALSE(dist::ExpTransform().inv() == dist::ExpTransform());
}

/// x^3 as a user's own.
struct Cube : dist::TransformRule {
  dist::Constraint domain() const override { return dist::constraints::real(); }
  dist::Constraint codomain() const override { return dist::constraints::real(); }
  dist::Argument sign() const override { return 1; }
  Tensor forward(const Tensor& x) const override { return x * x * x; }
  Tensor inverse(const Tensor& y) const override { return y.sign() * y.abs().pow(1.0 / 3); }
  Tensor log_abs_det_jacobian(const Tensor& x, const Tensor&) const override { return (x * x * 3).log(); }
};

TEST(Distributions, ATransformOfOnesOwn) {
  const dist::TransformedDistribution d(dist::Normal(0.0, 1.0), dist::Transform(std::make_shared<Cube>()));
  const Tensor y = core::tensor({8.0, -1.0}), x = core::tensor({2.0, -1.0});
  const Tensor wanted = dist::Normal(0.0, 1.0).log_prob(x) - (x * x * 3).log();
  EXPECT_TRUE(d.log_prob(y).allclose(wanted, 1e-5, 1e-6));
  EXPECT_TRUE(d.cdf(y).allclose(dist::Normal(0.0, 1.0).cdf(x), 1e-5, 1e-6));
}

TEST(Distributions, ConstraintsHaveTheirTransforms) {
  EXPECT_EQ(printed(dist::transform_to(dist::constraints::unit_interval())), "SigmoidTransform()");
  const Tensor x = core::tensor({-1.0, 2.0}), y = dist::biject_to(dist::constraints::less_than(3))(x);
  EXPECT_TRUE(y.allclose(3 - x.exp(), 1e-5, 1e-6));
  const dist::Constraint both =
      dist::constraints::stack({dist::constraints::real(), dist::constraints::positive()}, -1);
  EXPECT_TRUE(dist::transform_to(both)(x).allclose(core::tensor({-1.0, std::exp(2.0)}), 1e-5, 1e-6));
  EXPECT_EQ(message_of([] { dist::biject_to(dist::constraints::lower_cholesky()); }),
            "Cannot transform _LowerCholesky constraints");
  dist::register_biject_to("LowerCholesky", [](const dist::Constraint&) { return dist::LowerCholeskyTransform(); });
  EXPECT_EQ(printed(dist::biject_to(dist::constraints::lower_cholesky())), "LowerCholeskyTransform()");
}

TEST(Distributions, ADrawOfWishartsIsDrawnAgainAndSaysSo) {
  std::vector<std::string> said;
  const core::WarningHandler before = core::set_warning_handler([&](const std::string& text) { said.push_back(text); });
  const Tensor df = core::tensor({4.0}).requires_grad_();
  core::manual_seed(0);
  const Tensor drawn = dist::Wishart(df, {.covariance_matrix = core::eye(2)}).rsample({3});
  core::set_warning_handler(before);
  EXPECT_EQ(said, std::vector<std::string>{"Singular sample detected."});
  EXPECT_EQ(drawn.sizes(), (core::Shape{3, 1, 2, 2}));
  drawn.sum().backward();  // PyTorch's own fails here: it has overwritten the mask by then
  EXPECT_TRUE(df.grad().isfinite().all().item<bool>());
}

TEST(Distributions, AnglesThatNothingFitsAreNanWhereNothingIsChecked) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const dist::VonMises odd(0.0, core::tensor({nan, 0.0, 2.0}), {.validate_args = false});
  const std::vector<double> drawn = odd.sample().to_vector<double>();
  EXPECT_TRUE(std::isnan(drawn[0]) && std::isnan(drawn[1]) && !std::isnan(drawn[2]));
}

/// Numbers above 0 of a rate, as a family without formulas of its own.
struct Waiting : dist::DistributionOf<Waiting>, dist::ExponentialFamily {
  explicit Waiting(const Tensor& given) : DistributionOf(given.sizes(), core::Shape(), std::nullopt), rate(given) {}
  Waiting expand(const core::Shape& sizes) const { return Waiting(rate.expand(sizes)); }
  Tensor log_prob(const Tensor& x) const override { return rate.log() - rate * x; }
  Tensor entropy() const override { return entropy_by_gradient(batch_shape()); }
  dist::Constraint support() const override { return dist::constraints::nonnegative(); }
  std::vector<Tensor> natural_params() const override { return {-rate}; }
  Tensor log_normalizer(const std::vector<Tensor>& params) const override { return -(-params[0]).log(); }
  double mean_carrier_measure() const override { return 0; }
  Tensor rate;
};

TEST(Distributions, AFamilyOfOnesOwnHasEntropyAndDivergence) {
  const Waiting p(core::tensor({0.5, 2.0})), q(core::tensor({1.0, 3.0}));
  const dist::Exponential known_p(p.rate), known_q(q.rate);
  EXPECT_TRUE(p.entropy().allclose(known_p.entropy(), 1e-5, 1e-6));
  EXPECT_TRUE(dist::kl_divergence(p, q).allclose(dist::kl_divergence(known_p, known_q), 1e-5, 1e-6));
  EXPECT_NE(message_of([&] { dist::kl_divergence(p, known_q); }).find("different exponential families"),
            std::string::npos);
}

/// Always the same number.
struct Constant : dist::DistributionOf<Constant> {
  explicit Constant(const Tensor& v) : DistributionOf(v.sizes(), core::Shape(), std::nullopt), value(v) {}
  Constant expand(const core::Shape& sizes) const { return Constant(value.expand(sizes)); }
  Tensor rsample(const core::Shape& sizes) const override { return value.expand(extended_shape(sizes)); }
  Tensor log_prob(const Tensor& x) const override { return core::zeros_like(x); }
  dist::Constraint support() const override { return dist::constraints::real(); }
  Tensor value;
};

TEST(Distributions, ADistributionAndADivergenceOfOnesOwn) {
  const dist::Independent both(Constant(core::tensor({1.0, 2.0})), 1);
  EXPECT_EQ(both.sample({3}).sizes(), (core::Shape{3, 2}));
  EXPECT_EQ(printed(both), "Independent(Constant(), 1)");
  dist::register_kl<Constant, dist::Normal>(
      [](const Constant& p, const dist::Normal& q) { return -q.log_prob(p.value); });
  const Tensor kl = dist::kl_divergence(Constant(core::tensor({0.0})), dist::Normal(0.0, 1.0));
  EXPECT_NEAR(kl.item<double>(), 0.9189385, 1e-6);
}

}  // namespace
