#!/usr/bin/env python3
"""Makes tests/golden/distributions.tar.xz with PyTorch: torch.distributions, their transforms and kl_divergence. Usage:
make_distributions.py FOLDER [--seed N] (needs: pip install torch safetensors).

FOLDER/distributions/cases.json         four lists:
  "distributions"  "made": {"name", "args", "options"}, where an argument is a number, the name of an array, another such
                   object ("base") or a list of transforms; its shapes and printed text; "queries": what is asked ("ask", with
                   its arguments), and "result" (an array) with "grads" of the loss by the tensors among the arguments, or
                   "error" and "kind". Draws begin with manual_seed("seed")
  "pairs"          "p", "q" and the same of kl_divergence
  "transforms"     "made", and queries as above
  "gradients"      of draws of a gamma or beta distribution by "alpha"
FOLDER/distributions/cases.safetensors  the arrays
The loss is sum(result * cos(0, 1, 2, ...)).
"""

import json
import pathlib
import random
import sys

import torch
from safetensors.torch import save_file
from torch import distributions as dist
from torch.distributions import kl, relaxed_bernoulli, relaxed_categorical

FOLDER = pathlib.Path(sys.argv[1]) / "distributions"
SEED = int(sys.argv[sys.argv.index("--seed") + 1]) if "--seed" in sys.argv else 0
arrays = {}


def keep(tensor):
    name = "a%d" % len(arrays)
    arrays[name] = tensor.detach().clone().contiguous()
    return name


class Made:
    """A distribution or transform, how it was made, and the leaves it was made from."""

    def __init__(self, name, options=None, **args):
        self.leaves, self.spec = {}, {"name": name, "args": {}, "options": options or {}}
        given = {key: self.add(key, value) for key, value in args.items()}
        self.make = lambda: self.build(name, given, options or {})

    @staticmethod
    def build(name, given, options):
        given = {key: value.make() if isinstance(value, Made) else value for key, value in given.items()}
        given = {key: [v.make() if isinstance(v, Made) else v for v in value] if isinstance(value, list) else value
                 for key, value in given.items()}
        if name.endswith(".inv"):
            return getattr(dist.transforms, name[:-4])(**given, **options).inv
        if name in ("biject_to", "transform_to"):
            return getattr(dist, name)(given["support_of"].support)
        for where in (dist.transforms if name.endswith("Transform") else dist, dist.transforms, relaxed_bernoulli, relaxed_categorical):
            if hasattr(where, name):
                return getattr(where, name)(**given, **options)
        raise LookupError(name)

    def add(self, key, value):
        if isinstance(value, Made):
            self.spec["args"][key] = value.spec
            self.leaves.update({key + "." + name: leaf for name, leaf in value.leaves.items()})
        elif isinstance(value, list) and value and isinstance(value[0], Made):
            self.spec["args"][key] = [each.spec for each in value]
            for i, each in enumerate(value):
                self.leaves.update({"%s.%d.%s" % (key, i, name): leaf for name, leaf in each.leaves.items()})
        elif torch.is_tensor(value):
            value = value.clone().requires_grad_(value.dtype.is_floating_point)
            self.spec["args"][key] = {"array": keep(value)}
            if value.requires_grad:
                self.leaves[key] = value
        else:
            self.spec["args"][key] = value
        return value


# By cholesky_solve or cholesky_inverse, which give gradients of what they do not read, above the diagonal of a factor.
SOLVED = ("precision_matrix", "natural_params", "log_normalizer", "log_prob")


def of_what_is_read(ask, grads):
    return {name: grad.tril() if name.endswith("scale_tril") and ask in SOLVED else grad for name, grad in grads.items()}


def in_its_dtype(made, function):
    """GeneralizedPareto compares with a number of the default dtype, and so works in this one alone."""
    if made.spec["name"] != "GeneralizedPareto":
        return function

    def inside():
        torch.set_default_dtype(made_dtype(made))
        try:
            return function()
        finally:
            torch.set_default_dtype(torch.float32)
    return inside


def answer(function, leaves, ask=""):
    """The result and its gradients, or the error."""
    try:
        result = function()
    except Exception as error:  # noqa: BLE001: the kind is what is recorded
        return {"error": str(error), "kind": type(error).__name__}
    if not torch.is_tensor(result):
        return {"text": str(result)}
    case = {"result": keep(result)}
    if leaves and result.requires_grad and result.isfinite().all():
        weights = torch.cos(torch.arange(result.numel(), dtype=result.dtype)).reshape(result.shape)
        try:
            grads = torch.autograd.grad((result * weights).sum(), list(leaves.values()), allow_unused=True)
        except NotImplementedError:
            return case
        except RuntimeError as error:  # Wishart.rsample writes into the mask that its gradient needs
            if "modified by an inplace operation" not in str(error):
                raise
            return case
        there = {name: grad for name, grad in zip(leaves, grads) if grad is not None}
        case["grads"] = {name: keep(grad) for name, grad in of_what_is_read(ask, there).items()}
    return case


def draws(made, rng, ask, sample_shape, **more):
    seed = rng.randrange(2**31)

    def function():
        d = made.make()
        if "expand" in more:
            d = d.expand(torch.Size(more["expand"]))
        torch.manual_seed(seed)
        return getattr(d, ask)(torch.Size(sample_shape))

    return {"ask": ask, "seed": seed, "sample_shape": list(sample_shape), **more, **answer(function, made.leaves)}


def of_value(made, ask, value):
    value = value.detach().clone()
    leaves = dict(made.leaves)
    if value.dtype.is_floating_point:
        leaves["value"] = value.requires_grad_()
    return {"ask": ask, "value": keep(value), **answer(in_its_dtype(made, lambda: getattr(made.make(), ask)(value)), leaves, ask)}


def queries(made, rng, values):
    for ask in ("mean", "mode", "variance", "stddev"):
        yield {"ask": ask, **answer(lambda: getattr(made.make(), ask), made.leaves)}
    for ask in ("entropy", "perplexity"):
        yield {"ask": ask, **answer(lambda: getattr(made.make(), ask)(), made.leaves)}
    for expand in (True, False):
        yield {"ask": "enumerate_support", "expand_values": expand,
               **answer(lambda: made.make().enumerate_support(expand), made.leaves)}
    for sample_shape in ((), (3,), (2, 20)):
        yield draws(made, rng, "sample", sample_shape)
    yield draws(made, rng, "sample", (70,))
    yield draws(made, rng, "rsample", (5,))
    yield from what_some_have(made)
    d = made.make()
    wider = [3] + list(d.batch_shape)
    yield draws(made, rng, "sample", (2,), expand=wider)
    torch.manual_seed(rng.randrange(2**31))
    for value in [d.sample((4,)), d.sample()] + values:
        yield of_value(made, "log_prob", value)
        yield of_value(made, "cdf", value)
        for ask in ("log_survival_function", "log_cdf"):
            if hasattr(d, ask):
                yield of_value(made, ask, value)
    yield of_value(made, "icdf", torch.rand(torch.Size([4]) + d.batch_shape + d.event_shape, dtype=torch.float64).to(made_dtype(made)))


def what_some_have(made):
    d = made.make()
    for ask in ("covariance_matrix", "precision_matrix", "scale_tril"):
        if hasattr(d, ask):
            yield {"ask": ask, **answer(lambda: getattr(made.make(), ask), made.leaves, ask)}
    if isinstance(d, dist.ExponentialFamily):
        for i in range(len(d._natural_params)):
            yield {"ask": "natural_params", "index": i, **answer(lambda: made.make()._natural_params[i], made.leaves, "natural_params")}
        yield {"ask": "log_normalizer", **answer(lambda: made.make()._log_normalizer(*made.make()._natural_params), made.leaves, "log_normalizer")}


def made_dtype(made):
    floats = [leaf.dtype for leaf in made.leaves.values()]
    return floats[0] if floats else torch.float32


def distribution_case(made, rng, values):
    d = made.make()
    wider = d.expand(torch.Size([3] + list(d.batch_shape)))
    return {"made": made.spec, "batch_shape": list(d.batch_shape), "event_shape": list(d.event_shape), "text": repr(d),
            "support": str(d.support), "has_rsample": bool(d.has_rsample), "has_enumerate_support": bool(d.has_enumerate_support),
            "expanded_text": repr(wider), "queries": list(queries(made, rng, values))}


def t(*values, dtype=torch.float32):
    return torch.tensor(values if len(values) > 1 else values[0], dtype=dtype)


def matrices(n, *batch):
    a = torch.randn(*batch, n, n)
    return a @ a.mT + n * torch.eye(n)


def all_made():
    """Distributions, with values to score beside their own draws."""
    f64 = torch.float64
    yield Made("Normal", loc=0.0, scale=1.0), [t(0.3)]
    yield Made("Normal", loc=t(0.5, -1.0, 3.0), scale=t(1.0, 0.2, 4.0)), []
    yield Made("Normal", loc=torch.randn(2, 1), scale=torch.rand(3) + 0.1), []
    yield Made("Normal", loc=t(0.5, 2.0, dtype=f64), scale=2), []
    yield Made("Normal", {"validate_args": False}, loc=t(0.5, 1.0), scale=t(1.0, 0.0)), []
    yield Made("LogNormal", loc=0.0, scale=1.0), [t(2.0)]
    yield Made("LogNormal", loc=t(0.5, -1.0), scale=t(0.7, 0.2)), []
    yield Made("Uniform", low=0.0, high=1.0), [t(0.0)]
    yield Made("Uniform", low=t(-1.0, 2.0), high=t(3.0, 2.5)), []
    yield Made("Uniform", {"validate_args": False}, low=t(-1.0, 2.0), high=t(3.0, 2.5)), [t(4.0, 1.0)]
    yield Made("Exponential", rate=1.5), [t(0.0)]
    yield Made("Exponential", rate=t(0.5, 3.0, dtype=f64)), []
    yield Made("Laplace", loc=0.0, scale=1.0), []
    yield Made("Laplace", loc=t(1.0, -2.0), scale=t(0.3, 2.0)), []
    yield Made("Gamma", concentration=2.0, rate=1.0), []
    yield Made("Gamma", concentration=t(0.05, 0.7, 1.0, 3.0, 9.0, 40.0), rate=t(1.0, 0.5, 2.0, 0.1, 3.0, 10.0)), []
    yield Made("Gamma", concentration=t(0.2, 4.0, 12.0, 500.0, dtype=f64), rate=2), []
    yield Made("Chi2", df=3.0), []
    yield Made("Chi2", df=t(1.0, 4.0, 20.0)), []
    yield Made("Beta", concentration1=2.0, concentration0=5.0), []
    yield Made("Beta", concentration1=t(0.3, 1.0, 8.0, 60.0), concentration0=t(0.2, 3.0, 9.0, 5.0)), []
    yield Made("Beta", concentration1=t(0.5, 7.0, 0.9, dtype=f64), concentration0=1.5), []
    yield Made("Dirichlet", concentration=t(0.5, 1.0, 3.0)), []
    yield Made("Dirichlet", concentration=torch.rand(2, 4) * 5 + 0.2), []
    yield Made("Dirichlet", concentration=t(0.2, 0.5)), []
    yield Made("Dirichlet", concentration=torch.tensor([[10.0, 20.0, 30.0], [0.1, 7.0, 8.0]], dtype=f64)), []
    yield Made("Bernoulli", probs=0.3), []
    yield Made("Bernoulli", probs=t(0.0, 0.2, 0.5, 1.0)), []
    yield Made("Bernoulli", logits=torch.randn(2, 3)), []
    yield Made("Bernoulli", logits=0.5), []
    yield Made("Binomial", total_count=10, probs=t(0.1, 0.5, 0.9)), []
    yield Made("Binomial", total_count=t(3.0, 100.0, 400.0), probs=t(0.2, 0.3, 0.7)), []
    yield Made("Binomial", total_count=5, logits=torch.randn(3)), []
    yield Made("Binomial", total_count=t(50.0, 1000.0, dtype=f64), probs=t(0.4, 0.05, dtype=f64)), []
    yield Made("Geometric", probs=0.3), []
    yield Made("Geometric", probs=t(0.1, 0.5, 1.0)), []
    yield Made("Geometric", logits=t(-1.0, 2.0)), []
    yield Made("Poisson", rate=4.0), []
    yield Made("Poisson", rate=t(0.0, 0.5, 9.0, 15.0, 200.0)), []
    yield Made("Poisson", rate=t(3.0, 40.0, dtype=f64)), []
    yield Made("Categorical", probs=t(0.25, 0.25, 0.5)), []
    yield Made("Categorical", probs=torch.rand(2, 3, 4)), []
    yield Made("Categorical", logits=torch.randn(3, 5)), []
    yield Made("Categorical", logits=torch.randn(5, dtype=f64)), []
    yield Made("OneHotCategorical", probs=t(0.1, 0.2, 0.7)), []
    yield Made("OneHotCategorical", logits=torch.randn(2, 4)), []
    yield Made("OneHotCategoricalStraightThrough", logits=torch.randn(2, 4)), []
    yield Made("MultivariateNormal", loc=torch.zeros(2), covariance_matrix=torch.tensor([[2.0, 0.5], [0.5, 1.0]])), []
    yield Made("MultivariateNormal", loc=torch.randn(3, 2), scale_tril=torch.tensor([[1.0, 0.0], [0.3, 2.0]])), []
    yield Made("MultivariateNormal", loc=torch.randn(3), precision_matrix=matrices(3)), []
    yield Made("MultivariateNormal", loc=torch.randn(3), covariance_matrix=matrices(3, 2)), []
    yield from made_of_others()
    yield from made_on_lines()
    yield from made_of_counts()
    yield from made_of_matrices()
    yield from joined_made()


def made_of_others():
    f64 = torch.float64
    yield Made("HalfNormal", scale=1.5), [t(0.0)]
    yield Made("HalfNormal", scale=t(0.5, 2.0, dtype=f64)), []
    yield Made("HalfNormal", {"validate_args": False}, scale=t(0.5, 2.0)), [t(-1.0, 3.0)]
    yield Made("HalfCauchy", scale=1.0), [t(0.0)]
    yield Made("HalfCauchy", scale=torch.rand(2, 3, dtype=f64) + 0.2), []
    yield Made("LogisticNormal", loc=torch.randn(2, 3), scale=t(0.5, 1.0, 2.0)), []
    yield Made("LogisticNormal", loc=t(0.3, -1.0, dtype=f64), scale=1.0), []
    yield Made("LogisticNormal", loc=0.0, scale=1.0), []
    yield Made("InverseGamma", concentration=3.0, rate=2.0), [t(0.5)]
    yield Made("InverseGamma", concentration=t(0.5, 1.5, 4.0, dtype=f64), rate=t(1.0, 0.3, 2.0, dtype=f64)), []
    yield Made("StudentT", df=3.0), [t(0.7)]
    yield Made("StudentT", df=t(0.5, 1.0, 1.5, 2.0, 7.0), loc=t(0.0, 1.0, -1.0, 2.0, 3.0), scale=2.0), []
    yield Made("StudentT", df=t(3.0, 30.0, dtype=f64), loc=1.0, scale=torch.rand(3, 1, dtype=f64) + 0.2), []
    yield Made("FisherSnedecor", df1=3.0, df2=5.0), [t(1.0)]
    yield Made("FisherSnedecor", df1=t(1.0, 4.0, 9.0), df2=t(2.0, 3.0, 20.0)), []
    yield Made("FisherSnedecor", df1=t(6.0, 40.0, dtype=f64), df2=t(8.0, dtype=f64)), []
    yield Made("RelaxedBernoulli", temperature=t(0.5), probs=t(0.1, 0.5, 0.99)), []
    yield Made("RelaxedBernoulli", temperature=t(2.0, dtype=f64), logits=torch.randn(2, 3, dtype=f64)), []
    yield Made("LogitRelaxedBernoulli", temperature=t(0.7), logits=torch.randn(2, 3)), []
    yield Made("LogitRelaxedBernoulli", temperature=t(1.5, dtype=f64), probs=t(0.3, 0.6, dtype=f64)), []
    yield Made("RelaxedOneHotCategorical", temperature=t(0.5), probs=t(0.1, 0.2, 0.7)), []
    yield Made("RelaxedOneHotCategorical", temperature=t(2.0, dtype=f64), logits=torch.randn(2, 4, dtype=f64)), []
    yield Made("ExpRelaxedCategorical", temperature=t(0.7), logits=torch.randn(2, 4)), []
    yield Made("ExpRelaxedCategorical", temperature=t(1.5, dtype=f64), probs=t(0.3, 0.6, dtype=f64)), []
    three, normals = Made("Categorical", logits=torch.randn(3)), Made("Normal", loc=torch.randn(2, 3), scale=torch.rand(3) + 0.3)
    vectors = Made("Independent", base_distribution=Made("Normal", loc=torch.randn(2, 4, dtype=f64), scale=1.0), reinterpreted_batch_ndims=1)
    yield Made("MixtureSameFamily", mixture_distribution=three, component_distribution=Made("Normal", loc=t(-2.0, 0.0, 3.0), scale=t(1.0, 0.5, 2.0))), []
    yield Made("MixtureSameFamily", mixture_distribution=Made("Categorical", probs=torch.rand(2, 3)), component_distribution=normals), []
    yield Made("MixtureSameFamily", mixture_distribution=Made("Categorical", probs=torch.rand(1, 3)), component_distribution=normals), []
    yield Made("MixtureSameFamily", mixture_distribution=Made("Categorical", logits=torch.randn(2, dtype=f64)), component_distribution=vectors), []
    yield Made("MixtureSameFamily", mixture_distribution=three, component_distribution=Made("Poisson", rate=t(1.0, 5.0, 30.0))), []


def made_on_lines():
    f64 = torch.float64
    yield Made("Cauchy", loc=0.0, scale=1.0), [t(0.3)]
    yield Made("Cauchy", loc=t(0.5, -1.0), scale=t(0.2, 3.0)), []
    yield Made("Cauchy", loc=torch.randn(2, 1, dtype=f64), scale=torch.rand(3, dtype=f64) + 0.1), []
    yield Made("Gumbel", loc=0.5, scale=2.0), [t(0.3)]
    yield Made("Gumbel", loc=torch.randn(2, 3), scale=t(0.2, 1.0, 3.0)), []
    yield Made("Gumbel", loc=t(1.0, -2.0, dtype=f64), scale=t(0.2, 3.0, dtype=f64)), []
    yield Made("Weibull", scale=1.0, concentration=1.5), []
    yield Made("Weibull", scale=t(0.5, 2.0, 4.0), concentration=t(0.7, 1.0, 3.0)), []
    yield Made("Weibull", scale=t(0.5, 2.0, dtype=f64), concentration=torch.rand(3, 1, dtype=f64) + 0.5), []
    yield Made("Pareto", scale=1.0, alpha=1.5), [t(2.0)]
    yield Made("Pareto", scale=t(0.5, 2.0, 4.0), alpha=t(0.7, 1.5, 3.0)), []
    yield Made("Pareto", scale=t(0.5, 2.0, dtype=f64), alpha=torch.rand(3, 1, dtype=f64) + 2.5), []
    yield Made("GeneralizedPareto", loc=0.1, scale=2.0, concentration=0.4), [t(1.0)]
    yield Made("GeneralizedPareto", loc=t(0.0, 1.0, -1.0, 2.0), scale=t(1.0, 0.5, 2.0, 1.0), concentration=t(0.0, 0.7, -0.5, 2.0)), []
    yield Made("GeneralizedPareto", loc=t(0.0, 1.0, dtype=f64), scale=2.0, concentration=t(0.2, -1.0, dtype=f64)), []
    yield Made("Kumaraswamy", concentration1=2.0, concentration0=3.0), [t(0.5)]
    yield Made("Kumaraswamy", concentration1=t(0.7, 1.5, 4.0), concentration0=t(2.0, 0.5, 3.0)), []
    yield Made("Kumaraswamy", concentration1=t(1.5, 4.0, dtype=f64), concentration0=torch.rand(2, 1, dtype=f64) + 1), []
    yield Made("ContinuousBernoulli", probs=0.3), [t(0.5)]
    yield Made("ContinuousBernoulli", probs=t(0.0, 0.2, 0.4995, 0.5, 0.7, 1.0)), []
    away_from_half = torch.tensor([[-3.0, -0.9, 0.8], [1.5, 3.0, -5.0]])  # around it only rounding is left of gradients in f32
    yield Made("ContinuousBernoulli", {"validate_args": True}, logits=away_from_half + torch.rand(2, 3) * 0.2 - 0.1), []
    yield Made("ContinuousBernoulli", lims=[0.3, 0.6], probs=t(0.2, 0.4, 0.55, 0.9, dtype=f64)), [t(0.0, 1.0, 0.3, 0.4, dtype=f64)]
    yield Made("VonMises", loc=0.5, concentration=2.0), [t(4.0)]
    yield Made("VonMises", loc=t(0.0, 3.0, -20.0), concentration=t(0.1, 4.0, 50.0)), []
    yield Made("VonMises", loc=torch.randn(2, 1, dtype=f64), concentration=t(1e-6, 0.5, 3.0, dtype=f64)), []


def made_of_counts():
    yield Made("NegativeBinomial", total_count=3.0, probs=t(0.1, 0.5, 0.9)), []
    yield Made("NegativeBinomial", total_count=t(0.0, 0.5, 10.0), probs=t(0.2, 0.3, 0.7)), [t(0.0, 0.0, 4.0)]
    yield Made("NegativeBinomial", total_count=4, logits=torch.randn(2, 3, dtype=torch.float64)), []
    yield Made("Multinomial", total_count=5, probs=t(0.1, 0.2, 0.7)), []
    yield Made("Multinomial", total_count=10, logits=torch.randn(2, 3, dtype=torch.float64)), []
    yield Made("Multinomial", total_count=3, probs=t(0.5, 0.0, 0.5)), [t(2.0, 0.0, 1.0), t(1.0, 0.0, 0.0)]


def made_of_matrices():
    f64 = torch.float64
    yield Made("LowRankMultivariateNormal", loc=torch.zeros(3), cov_factor=torch.randn(3, 1), cov_diag=torch.rand(3) + 0.5), []
    yield Made("LowRankMultivariateNormal", loc=torch.randn(2, 3, dtype=f64), cov_factor=torch.randn(3, 2, dtype=f64), cov_diag=t(0.5, 1.0, 2.0, dtype=f64)), []
    yield Made("LowRankMultivariateNormal", loc=torch.randn(3), cov_factor=torch.randn(2, 3, 2), cov_diag=torch.rand(2, 3) + 0.5), []
    yield Made("Wishart", df=4.0, covariance_matrix=torch.tensor([[2.0, 0.5], [0.5, 1.0]])), []
    yield Made("Wishart", df=t(3.5, 7.0, dtype=f64), scale_tril=torch.tensor([[1.0, 0.0], [0.3, 2.0]], dtype=f64)), []
    yield Made("Wishart", df=t(5.0, 6.0), covariance_matrix=matrices(3, 2)), []
    yield Made("Wishart", df=t(8.0, dtype=f64), precision_matrix=matrices(3).double()), []
    yield Made("Wishart", df=t(1.5, dtype=f64), covariance_matrix=torch.eye(2, dtype=f64)), []
    yield Made("LKJCholesky", dim=3, concentration=1.0), []
    yield Made("LKJCholesky", dim=2, concentration=t(0.5, 3.0)), []
    yield Made("LKJCholesky", dim=4, concentration=t(1.5, dtype=f64)), []


def joined_made():
    yield Made("Independent", base_distribution=Made("Normal", loc=torch.randn(2, 3), scale=t(1.0, 2.0, 3.0)), reinterpreted_batch_ndims=1), []
    yield Made("Independent", base_distribution=Made("Bernoulli", probs=torch.rand(2, 3)), reinterpreted_batch_ndims=2), []
    yield Made("Independent", base_distribution=Made("Categorical", logits=torch.randn(2, 3)), reinterpreted_batch_ndims=0), []
    uniform, normal = Made("Uniform", low=0.0, high=1.0), Made("Normal", loc=t(0.0, 1.0), scale=t(1.0, 0.5))
    yield Made("TransformedDistribution", base_distribution=uniform,
               transforms=[Made("SigmoidTransform.inv"), Made("AffineTransform", loc=1.0, scale=2.0)]), [t(0.5)]
    yield Made("TransformedDistribution", base_distribution=normal, transforms=[Made("TanhTransform")]), []
    yield Made("TransformedDistribution", base_distribution=normal, transforms=[Made("TanhTransform", {"cache_size": 1})]), []
    yield Made("TransformedDistribution", base_distribution=normal,
               transforms=[Made("AffineTransform", loc=t(0.0, 1.0), scale=t(-1.0, 2.0)), Made("ExpTransform")]), []
    yield Made("TransformedDistribution", base_distribution=normal,
               transforms=[Made("ExpTransform"), Made("PowerTransform", exponent=t(2.0, 0.5))]), []
    yield Made("TransformedDistribution", base_distribution=Made("Normal", loc=torch.zeros(3), scale=1.0), transforms=[Made("StickBreakingTransform")]), []
    yield Made("TransformedDistribution", base_distribution=Made("Normal", loc=torch.zeros(2, 3), scale=1.0), transforms=[Made("SoftmaxTransform")]), []
    yield Made("TransformedDistribution", base_distribution=Made("Normal", loc=0.0, scale=1.0),
               transforms=[Made("AffineTransform", loc=t(0.0, 1.0, 2.0), scale=2.0)]), []
    yield Made("TransformedDistribution", base_distribution=normal,
               transforms=[Made("ComposeTransform", parts=[Made("AffineTransform", loc=0.5, scale=3.0), Made("SigmoidTransform")])]), []


def bad_made():
    """What refuses its arguments."""
    yield "Normal", {"loc": 0.0, "scale": -1.0}
    yield "Normal", {"loc": t(0.0, float("nan")), "scale": t(1.0, 1.0)}
    yield "LogNormal", {"loc": 0.0, "scale": t(0.0, 1.0)}
    yield "Uniform", {"low": 1.0, "high": 0.0}
    yield "Uniform", {"low": t(0.0, 3.0), "high": t(1.0, 2.0)}
    yield "Exponential", {"rate": 0.0}
    yield "Laplace", {"loc": 0.0, "scale": torch.zeros(2, 2)}
    yield "Gamma", {"concentration": t(1.0, -1.0), "rate": 1.0}
    yield "Chi2", {"df": -1.0}
    yield "Beta", {"concentration1": -1.0, "concentration0": 1.0}
    yield "Dirichlet", {"concentration": t(1.0, -1.0)}
    yield "Dirichlet", {"concentration": t(1.0)}
    yield "Bernoulli", {"probs": 1.5}
    yield "Bernoulli", {}
    yield "Bernoulli", {"probs": 0.5, "logits": 0.5}
    yield "Bernoulli", {"logits": t(float("nan"), 1.0)}
    yield "Binomial", {"total_count": t(-1.0, 2.0), "probs": t(0.5, 0.5)}
    yield "Binomial", {"total_count": 2, "probs": t(0.5, 2.0)}
    yield "Geometric", {"probs": t(0.0, 0.5)}
    yield "Geometric", {"probs": 0.0}
    yield "Poisson", {"rate": -1.0}
    yield "Categorical", {"probs": t(-0.5, 1.0)}
    yield "Categorical", {"probs": t(0.5)}
    yield "Categorical", {"logits": t(0.5)}
    yield "Categorical", {"logits": t(float("nan"), 0.5)}
    yield "Categorical", {}
    yield "OneHotCategorical", {"probs": t(-0.5, 1.0)}
    yield "MultivariateNormal", {"loc": torch.zeros(2), "covariance_matrix": torch.tensor([[1.0, 2.0], [2.0, 1.0]])}
    yield "MultivariateNormal", {"loc": torch.zeros(2), "covariance_matrix": torch.tensor([[1.0, 2.0], [0.0, 1.0]])}
    yield "MultivariateNormal", {"loc": torch.zeros(2), "scale_tril": torch.tensor([[1.0, 2.0], [0.0, 1.0]])}
    yield "MultivariateNormal", {"loc": torch.zeros(2), "scale_tril": torch.ones(2)}
    yield "MultivariateNormal", {"loc": torch.zeros(2), "covariance_matrix": torch.ones(2)}
    yield "MultivariateNormal", {"loc": t(0.0), "covariance_matrix": torch.eye(1)}
    yield "MultivariateNormal", {"loc": torch.zeros(2)}
    yield from bad_numbers()
    yield from bad_matrices()
    yield "Independent", {"base_distribution": Made("Normal", loc=torch.zeros(2), scale=1.0), "reinterpreted_batch_ndims": 2}
    yield "TransformedDistribution", {"base_distribution": Made("Normal", loc=0.0, scale=1.0), "transforms": [Made("SoftmaxTransform")]}


def bad_numbers():
    nan = float("nan")
    for name in ("Cauchy", "Gumbel", "LogisticNormal"):
        yield name, {"loc": 0.0, "scale": t(1.0, -1.0)}
    yield "HalfNormal", {"scale": -1.0}
    yield "HalfCauchy", {"scale": t(1.0, 0.0)}
    yield "Weibull", {"scale": -1.0, "concentration": 1.0}
    yield "Weibull", {"scale": 1.0, "concentration": t(-1.0, 1.0)}
    yield "Pareto", {"scale": 1.0, "alpha": -1.0}
    yield "Pareto", {"scale": -1.0, "alpha": 1.0}
    yield "GeneralizedPareto", {"loc": 0.0, "scale": -1.0, "concentration": t(1.0, 2.0)}
    yield "Kumaraswamy", {"concentration1": -1.0, "concentration0": 1.0}
    yield "InverseGamma", {"concentration": -1.0, "rate": 1.0}
    yield "StudentT", {"df": -1.0}
    yield "StudentT", {"df": 1.0, "loc": 0.0, "scale": -1.0}
    yield "FisherSnedecor", {"df1": 1.0, "df2": t(-1.0, 1.0)}
    yield "VonMises", {"loc": 0.0, "concentration": -1.0}
    for name in ("ContinuousBernoulli", "RelaxedBernoulli"):
        temperature = {"temperature": t(1.0)} if name == "RelaxedBernoulli" else {}
        yield name, temperature
        for args in ({"probs": 1.5}, {"probs": t(nan, 0.5)}, {"logits": t(nan, 0.5)}, {"probs": 0.5, "logits": 0.5}):
            yield name, {**temperature, **args}
    yield "RelaxedOneHotCategorical", {"temperature": t(1.0), "probs": t(0.5, -0.5)}
    yield "NegativeBinomial", {"total_count": -1.0, "probs": t(0.5, 0.5)}
    yield "NegativeBinomial", {"total_count": 1.0, "probs": t(0.5, 1.0)}
    yield "NegativeBinomial", {"total_count": 1.0}
    yield "Multinomial", {"total_count": -1, "probs": t(0.5, 0.5)}
    yield "Multinomial", {"total_count": 2, "probs": t(0.5, -0.5)}
    yield "Multinomial", {"total_count": 2, "probs": t(0.5)}
    three = Made("Categorical", probs=torch.ones(3))
    yield "MixtureSameFamily", {"mixture_distribution": three, "component_distribution": Made("Normal", loc=torch.zeros(2), scale=1.0)}
    yield "MixtureSameFamily", {"mixture_distribution": three, "component_distribution": Made("Normal", loc=0.0, scale=1.0)}
    yield "MixtureSameFamily", {"mixture_distribution": Made("Categorical", probs=torch.ones(4, 3)), "component_distribution": Made("Normal", loc=torch.zeros(2, 3), scale=1.0)}


def bad_matrices():
    low_rank = {"loc": torch.zeros(2), "cov_factor": torch.ones(2, 1), "cov_diag": torch.ones(2)}
    for wrong in ({"loc": t(0.0)}, {"cov_factor": torch.ones(2)}, {"cov_factor": torch.ones(3, 1)}, {"cov_diag": torch.ones(3)},
                  {"loc": torch.zeros(3, 2), "cov_factor": torch.ones(2, 2, 1)}, {"loc": t(0.0, float("nan"))}):
        yield "LowRankMultivariateNormal", {**low_rank, **wrong}
    yield "Wishart", {"df": 1.0, "covariance_matrix": torch.eye(2)}
    yield "Wishart", {"df": t(1.0, 4.0), "covariance_matrix": torch.eye(2)}
    yield "Wishart", {"df": 4.0}
    yield "Wishart", {"df": 4.0, "scale_tril": torch.ones(2)}
    yield "Wishart", {"df": 4.0, "covariance_matrix": torch.tensor([[1.0, 2.0], [2.0, 1.0]])}
    for dim, concentration in ((1, 1.0), (3, -1.0), (3, t(1.0, -0.2))):
        yield "LKJCholesky", {"dim": dim, "concentration": concentration}


def bad_values():
    yield Made("HalfNormal", scale=1.0), t(-1.0)
    yield Made("Pareto", scale=t(1.0, 2.0), alpha=1.0), t(1.0, 1.0)
    yield Made("GeneralizedPareto", loc=0.0, scale=1.0, concentration=t(-1.0, 1.0)), t(0.5, -1.0)
    yield Made("ContinuousBernoulli", probs=0.5), t(1.5)
    yield Made("NegativeBinomial", total_count=3.0, probs=t(0.5, 0.5)), t(0.5, 1.0)
    yield Made("Multinomial", total_count=2, probs=t(0.5, 0.5)), t(2.0, 1.0)
    yield Made("Multinomial", total_count=2, probs=t(0.5, 0.5)), t(-1.0, 1.0)
    yield Made("MixtureSameFamily", mixture_distribution=Made("Categorical", probs=torch.ones(2)), component_distribution=Made("Exponential", rate=t(1.0, 2.0))), t(-1.0)
    yield Made("Wishart", df=4.0, covariance_matrix=torch.eye(2)), torch.tensor([[1.0, 2.0], [2.0, 1.0]])
    yield Made("LKJCholesky", dim=2, concentration=1.0), torch.tensor([[1.0, 0.0], [0.5, 0.5]])
    yield Made("LKJCholesky", dim=2, concentration=1.0), torch.tensor([[1.0, 0.0], [0.6, -0.8]])
    yield Made("RelaxedOneHotCategorical", temperature=t(1.0), probs=t(0.5, 0.5)), t(0.5, 0.6)
    yield Made("StudentT", df=1.0), t(float("nan"))
    yield Made("Normal", loc=0.0, scale=1.0), t(float("nan"), 1.0)
    yield Made("Normal", loc=torch.zeros(3), scale=1.0), torch.zeros(2)
    yield Made("Exponential", rate=1.0), t(-1.0)
    yield Made("Uniform", low=t(0.0, 1.0), high=t(1.0, 2.0)), t(2.0, 1.5)
    yield Made("Bernoulli", probs=0.5), t(0.5)
    yield Made("Binomial", total_count=3, probs=t(0.5, 0.5)), t(4.0, 1.0)
    yield Made("Categorical", probs=t(0.5, 0.5)), torch.tensor(2)
    yield Made("Categorical", probs=torch.ones(2, 3)), torch.tensor([0.5, 1.0])
    yield Made("OneHotCategorical", probs=t(0.5, 0.5)), t(1.0, 1.0)
    yield Made("OneHotCategorical", probs=t(0.5, 0.5)), t(1.0, 0.0, 0.0)
    yield Made("Dirichlet", concentration=t(1.0, 1.0)), t(0.7, 0.7)
    yield Made("Dirichlet", concentration=t(1.0, 1.0)), t(0.7, 0.3001)
    yield Made("Dirichlet", concentration=t(1.0, 1.0)), t(0.7)
    yield Made("Poisson", rate=1.0), t(1.5)
    yield Made("Geometric", probs=0.5), t(-1.0)
    yield Made("Gamma", concentration=1.0, rate=1.0), t(-0.5)
    yield Made("Beta", concentration1=1.0, concentration0=1.0), t(1.5)
    yield Made("LogNormal", loc=0.0, scale=1.0), t(-1.0)
    yield Made("MultivariateNormal", loc=torch.zeros(2), covariance_matrix=torch.eye(2)), torch.zeros(3)


def error_cases():
    for name, args in bad_made():
        made = Made(name, **args)
        yield {"made": made.spec, "queries": [{"ask": "make", **answer(made.make, {})}]}
    for validate in (True, False):
        made = Made("ContinuousBernoulli", {"validate_args": validate}, probs=1.5)
        yield {"made": made.spec, "queries": [{"ask": "make", **answer(made.make, {})}]}
    for made, value in bad_values():
        yield {"made": made.spec, "queries": [of_value(made, "log_prob", value)]}


def sample_of(name):
    """One for pairs; of a shape (2)."""
    a, b = torch.rand(2) + 0.3, torch.rand(2) * 2 + 0.5
    return {
        "Bernoulli": lambda: Made(name, probs=a * 0.7), "Beta": lambda: Made(name, concentration1=a, concentration0=b),
        "Binomial": lambda: Made(name, total_count=4, probs=a * 0.7), "Categorical": lambda: Made(name, logits=torch.randn(2, 3)),
        "Dirichlet": lambda: Made(name, concentration=torch.rand(2, 3) + 0.5), "Exponential": lambda: Made(name, rate=a),
        "Gamma": lambda: Made(name, concentration=a, rate=b), "Chi2": lambda: Made(name, df=b),
        "Geometric": lambda: Made(name, probs=a * 0.7), "Laplace": lambda: Made(name, loc=torch.randn(2), scale=a),
        "Normal": lambda: Made(name, loc=torch.randn(2), scale=a), "LogNormal": lambda: Made(name, loc=torch.randn(2), scale=a),
        "OneHotCategorical": lambda: Made(name, logits=torch.randn(2, 3)), "Poisson": lambda: Made(name, rate=b),
        "Uniform": lambda: Made(name, low=a * 0.2, high=a * 0.2 + b * 0.2),
        "MultivariateNormal": lambda: Made(name, loc=torch.randn(2, 3), covariance_matrix=matrices(3)),
        "Independent": lambda: Made(name, base_distribution=Made("Normal", loc=torch.randn(2, 3), scale=torch.rand(3) + 0.2), reinterpreted_batch_ndims=1),
        "TransformedDistribution": lambda: Made(name, base_distribution=Made("Normal", loc=torch.randn(2), scale=a),
                                                transforms=[Made("ExpTransform"), Made("AffineTransform", loc=1.0, scale=2.0)]),
        "Cauchy": lambda: Made(name, loc=torch.randn(2), scale=a), "Gumbel": lambda: Made(name, loc=torch.randn(2), scale=a),
        "Pareto": lambda: Made(name, scale=a, alpha=t(1.5, 2.5)), "HalfNormal": lambda: Made(name, scale=a), "HalfCauchy": lambda: Made(name, scale=a),
        "ContinuousBernoulli": lambda: Made(name, probs=a * 0.7), "InverseGamma": lambda: Made(name, concentration=a, rate=b),
        "LowRankMultivariateNormal": lambda: Made(name, loc=torch.randn(2, 3), cov_factor=torch.randn(3, 1), cov_diag=torch.rand(3) + 0.5),
        "Wishart": lambda: Made(name, df=b + 3, covariance_matrix=matrices(3)), "Weibull": lambda: Made(name, scale=a, concentration=b),
        "LogisticNormal": lambda: Made(name, loc=torch.randn(2), scale=a), "Kumaraswamy": lambda: Made(name, concentration1=a, concentration0=b),
        "StudentT": lambda: Made(name, df=a), "VonMises": lambda: Made(name, loc=a, concentration=b), "Multinomial": lambda: Made(name, total_count=3, probs=torch.rand(2, 3)),
    }[name]()


# Of these only few pairs have a divergence.
OTHERS = ["Cauchy", "ContinuousBernoulli", "Gumbel", "HalfCauchy", "HalfNormal", "InverseGamma", "Kumaraswamy", "LogisticNormal", "LowRankMultivariateNormal",
          "Multinomial", "Pareto", "StudentT", "VonMises", "Weibull", "Wishart"]
NAMES = ["Bernoulli", "Beta", "Binomial", "Categorical", "Chi2", "Dirichlet", "Exponential", "Gamma", "Geometric", "Independent", "Laplace",
         "LogNormal", "MultivariateNormal", "Normal", "OneHotCategorical", "Poisson", "TransformedDistribution", "Uniform"]


def pair(p, q):
    leaves = {**{"p." + name: leaf for name, leaf in p.leaves.items()}, **{"q." + name: leaf for name, leaf in q.leaves.items()}}
    return {"p": p.spec, "q": q.spec, **answer(lambda: dist.kl_divergence(p.make(), q.make()), leaves, "natural_params")}


def pairs():
    for p in NAMES:
        for q in NAMES:
            yield pair(sample_of(p), sample_of(q))
    known = {(p.__name__, q.__name__) for p, q in kl._KL_REGISTRY}
    for p, q in sorted({(p, q) for p, q in known if p in OTHERS or q in OTHERS} | {(p, p) for p in OTHERS}):
        yield pair(sample_of(p), sample_of(q))
    for p, q in (("Gumbel", "Laplace"), ("Wishart", "Gamma"), ("Poisson", "ContinuousBernoulli"), ("Chi2", "Gumbel"), ("Pareto", "LogNormal"), ("StudentT", "Normal")):
        yield pair(sample_of(p), sample_of(q))
    yield from pairs_at_borders()
    yield pair(Made("Bernoulli", probs=t(0.0, 1.0, 0.5, 0.5)), Made("Bernoulli", probs=t(0.5, 0.5, 0.0, 1.0)))
    yield pair(Made("Categorical", probs=t(0.0, 0.5, 0.5)), Made("Categorical", probs=t(0.5, 0.5, 0.0)))
    yield pair(Made("Binomial", total_count=3, probs=t(0.5, 0.5)), Made("Binomial", total_count=4, probs=t(0.5, 0.5)))
    yield pair(Made("Binomial", total_count=4, probs=t(0.5, 0.5)), Made("Binomial", total_count=3, probs=t(0.5, 0.5)))
    yield pair(Made("Uniform", low=t(0.0, 0.2), high=t(1.0, 2.0)), Made("Uniform", low=t(0.1, 0.0), high=t(1.0, 3.0)))
    yield pair(Made("Uniform", low=t(-1.0, 0.0), high=t(1.0, 0.5)), Made("Beta", concentration1=t(2.0, 3.0), concentration0=1.0))
    yield pair(Made("Uniform", low=t(-1.0, 0.0), high=t(1.0, 0.5)), Made("Exponential", rate=t(2.0, 3.0)))
    yield pair(Made("Beta", concentration1=t(2.0, 3.0), concentration0=1.0), Made("Uniform", low=t(0.0, 0.1), high=t(1.0, 2.0)))
    yield pair(Made("MultivariateNormal", loc=torch.zeros(2), covariance_matrix=matrices(2)), Made("MultivariateNormal", loc=torch.zeros(3), covariance_matrix=matrices(3)))
    yield pair(Made("MultivariateNormal", loc=torch.zeros(2, 2), covariance_matrix=matrices(2, 2)), Made("MultivariateNormal", loc=torch.ones(2), covariance_matrix=matrices(2)))
    yield pair(Made("Normal", loc=torch.zeros(2, 3), scale=1.0), Made("Normal", loc=0.0, scale=t(1.0, 2.0, 3.0)))


def pairs_at_borders():
    weibull = Made("Weibull", scale=t(1.0, 2.0), concentration=t(1.5, 0.5))
    yield pair(weibull, weibull)
    yield pair(Made("ContinuousBernoulli", probs=t(0.4995, 0.2)), Made("ContinuousBernoulli", logits=t(0.0, 1.0)))
    yield pair(Made("ContinuousBernoulli", probs=t(0.3, 0.2, 0.6, 0.7)), Made("Uniform", low=t(-1.0, 0.0, 0.0, -1.0), high=t(2.0, 1.0, 2.0, 1.0)))
    yield pair(Made("Uniform", low=t(0.2, 0.0), high=t(0.9, 1.0)), Made("ContinuousBernoulli", probs=t(0.3, 0.2)))
    yield pair(Made("Pareto", scale=t(1.0, 2.0), alpha=3.0), Made("Pareto", scale=t(2.0, 1.0), alpha=1.5))
    yield pair(Made("Pareto", scale=t(1.0, 2.0), alpha=t(0.5, 3.0)), Made("Exponential", rate=1.5))
    yield pair(Made("Uniform", low=t(1.0, 3.0), high=5.0), Made("Pareto", scale=t(2.0, 1.0), alpha=1.5))
    yield pair(Made("Wishart", df=4.0, covariance_matrix=matrices(2)), Made("Wishart", df=3.0, scale_tril=torch.tensor([[1.0, 0.0], [0.5, 2.0]])))
    low, full = "LowRankMultivariateNormal", "MultivariateNormal"
    for p, q in ((low, low), (low, full), (full, low)):
        yield pair(normal_of(p, 2), normal_of(q, 2))
        yield pair(normal_of(p, 2), normal_of(q, 3))


def normal_of(name, n):
    if name == "MultivariateNormal":
        return Made(name, loc=torch.randn(n), covariance_matrix=matrices(n, 2))
    return Made(name, loc=torch.randn(2, n), cov_factor=torch.randn(n, 1), cov_diag=torch.rand(n) + 0.5)


def all_transforms():
    yield from constrained_transforms()
    x, vector, positive = torch.randn(2, 3), torch.randn(2, 4), torch.rand(2, 3) + 0.2
    yield Made("ExpTransform"), x
    yield Made("SigmoidTransform"), torch.cat([x, torch.tensor([[-200.0, 0.0, 200.0]])])
    yield Made("SigmoidTransform.inv"), torch.rand(2, 3)
    yield Made("TanhTransform"), x
    yield Made("SoftplusTransform"), x
    yield Made("AbsTransform"), x
    yield Made("PowerTransform", exponent=2.0), positive
    yield Made("PowerTransform", exponent=t(0.5, 2.0, -1.0)), positive
    yield Made("AffineTransform", loc=1.0, scale=-2.0), x
    yield Made("AffineTransform", loc=t(1.0, 2.0, 3.0), scale=t(0.5, -1.0, 2.0)), x
    yield Made("AffineTransform", loc=t(1.0, 2.0, 3.0), scale=t(0.5, -1.0, 2.0), event_dim=1), x
    yield Made("AffineTransform", loc=0, scale=3), x.double()
    yield Made("SoftmaxTransform"), vector
    yield Made("StickBreakingTransform"), vector
    yield Made("LowerCholeskyTransform"), torch.randn(2, 3, 3)
    yield Made("PositiveDefiniteTransform"), torch.randn(2, 3, 3)
    yield Made("ReshapeTransform", in_shape=[4], out_shape=[2, 2]), vector
    yield Made("ComposeTransform", parts=[Made("AffineTransform", loc=0.5, scale=2.0), Made("TanhTransform")]), x
    yield Made("ComposeTransform.inv", parts=[Made("AffineTransform", loc=0.5, scale=2.0), Made("ExpTransform")]), positive
    yield Made("ComposeTransform", parts=[Made("ExpTransform"), Made("StickBreakingTransform")]), vector
    yield Made("IndependentTransform", base_transform=Made("ExpTransform"), reinterpreted_batch_ndims=1), x
    yield Made("StackTransform", tseq=[Made("ExpTransform"), Made("TanhTransform"), Made("AffineTransform", loc=0.0, scale=2.0)], dim=1), x
    yield Made("CatTransform", tseq=[Made("ExpTransform"), Made("SigmoidTransform")], dim=1, lengths=[1, 3]), vector
    yield Made("CumulativeDistributionTransform", distribution=Made("Normal", loc=0.0, scale=1.0)), x


def constrained_transforms():
    """What biject_to and transform_to make of the supports of distributions."""
    x, vector = torch.randn(2, 3), torch.randn(2, 6)
    yield Made("CorrCholeskyTransform"), vector
    yield Made("CorrCholeskyTransform"), torch.randn(1, dtype=torch.float64)
    pareto = Made("Pareto", scale=t(1.0, 2.0, 3.0), alpha=1.0)
    supports = [(Made("Normal", loc=torch.zeros(3), scale=1.0), x), (pareto, x), (Made("Exponential", rate=1.0), x), (Made("Weibull", scale=1.0, concentration=1.0), x),
                (Made("Beta", concentration1=1.0, concentration0=1.0), x), (Made("Uniform", low=t(-1.0, 0.0, 1.0), high=t(1.0, 2.0, 4.0)), x),
                (Made("Dirichlet", concentration=torch.ones(4)), vector), (Made("LKJCholesky", dim=4, concentration=1.0), vector),
                (Made("Independent", base_distribution=pareto, reinterpreted_batch_ndims=1), x), (Made("MultivariateNormal", loc=torch.zeros(3), covariance_matrix=torch.eye(3)), x)]
    for name in ("biject_to", "transform_to"):
        for support_of, given in supports:
            yield Made(name, support_of=support_of), given
    yield Made("transform_to", support_of=Made("Wishart", df=4.0, covariance_matrix=torch.eye(3))), torch.randn(3, 3)


def refused_transforms():
    mixture = Made("MixtureSameFamily", mixture_distribution=Made("Categorical", probs=torch.ones(2)), component_distribution=Made("Normal", loc=t(1.0, 2.0), scale=1.0))
    for name, support_of in (("biject_to", Made("Wishart", df=4.0, covariance_matrix=torch.eye(3))), ("transform_to", Made("Bernoulli", probs=0.5)), ("biject_to", mixture)):
        made = Made(name, support_of=support_of)
        yield {"made": made.spec, "queries": [{"ask": "make", **answer(made.make, {})}]}
    for count in (2, 4):
        made, x = Made("CorrCholeskyTransform"), torch.randn(count)
        yield {"made": made.spec, "queries": [{"ask": "forward", "x": keep(x), **answer(lambda: made.make()(x), {})},
                                              {"ask": "forward_shape", "x": keep(x), **answer(lambda: made.make().forward_shape(x.shape), {})}]}


def transform_queries(made, x):
    x = x.clone().requires_grad_()
    f = made.make()
    y = f(x).detach().requires_grad_()
    given = {"x": keep(x), "y": keep(y)}
    yield {"ask": "forward", **given, **answer(lambda: made.make()(x), {**made.leaves, "x": x})}
    yield {"ask": "inverse", **given, **answer(lambda: made.make().inv(y), {**made.leaves, "y": y})}
    yield {"ask": "log_abs_det_jacobian", **given,
           **answer(lambda: made.make().log_abs_det_jacobian(x, y), {**made.leaves, "x": x, "y": y})}
    yield {"ask": "sign", **answer(lambda: made.make().sign, {})}
    for ask in ("domain", "codomain"):
        yield {"ask": ask, **answer(lambda: str(getattr(made.make(), ask)) + " of " + str(getattr(made.make(), ask).event_dim), {})}
    yield {"ask": "forward_shape", **given, **answer(lambda: made.make().forward_shape(x.shape), {})}
    yield {"ask": "inverse_shape", **given, **answer(lambda: made.make().inverse_shape(y.shape), {})}
    yield {"ask": "event_dim", **answer(lambda: made.make().event_dim, {})}


def transforms():
    for made, x in all_transforms():
        yield {"made": made.spec, "text": repr(made.make()), "inverse_text": repr(made.make().inv), "bijective": bool(made.make().bijective),
               "queries": list(transform_queries(made, x))}
    yield from refused_transforms()
    for name, args in (("ReshapeTransform", {"in_shape": [4], "out_shape": [3]}), ("ExpTransform", {"cache_size": 2})):
        made = Made(name, {"cache_size": args.pop("cache_size")} if "cache_size" in args else None, **args)
        yield {"made": made.spec, "queries": [{"ask": "make", **answer(made.make, {})}]}


def gradients():
    """Of draws by the parameters, where each of the approximations holds and at their borders."""
    alpha = torch.tensor([1e-3, 0.05, 0.3, 0.9, 1.0, 2.5, 6.5, 7.9, 8.1, 30.0, 400.0], dtype=torch.float64)
    parts = torch.tensor([0.001, 0.1, 0.5, 0.85, 0.95, 1.0, 1.05, 1.15, 1.5, 3.0, 12.0], dtype=torch.float64)
    x = alpha[:, None] * parts
    yield {"of": "gamma", "alpha": keep(alpha[:, None].expand_as(x)), "x": keep(x), "result": keep(torch._standard_gamma_grad(alpha[:, None].expand_as(x).contiguous(), x))}
    places = torch.tensor([1e-6, 1e-3, 0.02, 0.1, 0.3, 0.4999, 0.5, 0.7, 0.9, 0.99, 0.9999], dtype=torch.float64)
    a, b, x = (each.contiguous() for each in torch.broadcast_tensors(alpha[:, None, None], alpha[:, None], places))
    mean = (a / (a + b)).clamp(1e-9, 1 - 1e-9)
    for x in (x, mean, (mean * 1.0001).clamp(max=1 - 1e-9)):
        yield {"of": "beta", "alpha": keep(a), "total": keep(a + b), "x": keep(x), "result": keep(torch._dirichlet_grad(x, a, a + b))}


def main():
    torch.manual_seed(SEED)
    rng = random.Random(SEED)
    cases = {"torch": torch.__version__, "distributions": [distribution_case(m, rng, v) for m, v in all_made()] + list(error_cases()),
             "pairs": list(pairs()), "transforms": list(transforms()), "gradients": list(gradients())}
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "cases.json").write_text(json.dumps(cases))
    save_file(arrays, str(FOLDER / "cases.safetensors"))
    print(len(cases["distributions"]), "distributions with", sum(len(c["queries"]) for c in cases["distributions"]), "queries,",
          len(cases["pairs"]), "pairs,", len(cases["transforms"]), "transforms")


if __name__ == "__main__":
    main()
