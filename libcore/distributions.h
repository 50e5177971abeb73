#pragma once
// torch.distributions as core::distributions: every distribution, transform and kl_divergence. core.h includes it.
// Thread safety: see each header.
// Use: core::distributions::Normal prior(0.0, 1.0); core::Tensor score = prior.log_prob(x);

#include "libcore/distributions/categorical.h"
#include "libcore/distributions/constraint_registry.h"
#include "libcore/distributions/constraints.h"
#include "libcore/distributions/continuous.h"
#include "libcore/distributions/counts.h"
#include "libcore/distributions/discrete.h"
#include "libcore/distributions/distribution.h"
#include "libcore/distributions/exponential_family.h"
#include "libcore/distributions/extreme_values.h"
#include "libcore/distributions/folded.h"
#include "libcore/distributions/gamma.h"
#include "libcore/distributions/gamma_ratios.h"
#include "libcore/distributions/kl.h"
#include "libcore/distributions/low_rank_multivariate_normal.h"
#include "libcore/distributions/matrices.h"
#include "libcore/distributions/mixture.h"
#include "libcore/distributions/multivariate_normal.h"
#include "libcore/distributions/relaxed.h"
#include "libcore/distributions/transform.h"
#include "libcore/distributions/transformed.h"
#include "libcore/distributions/transforms.h"
#include "libcore/distributions/unit_interval.h"
#include "libcore/distributions/von_mises.h"
