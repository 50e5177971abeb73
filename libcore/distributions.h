#pragma once
// torch.distributions as core::distributions: every distribution, transform and kl_divergence. core.h includes it.
// Thread safety: see each header.
// Use: core::distributions::Normal prior(0.0, 1.0); core::Tensor score = prior.log_prob(x);

#include "libcore/distributions/categorical.h"
#include "libcore/distributions/constraints.h"
#include "libcore/distributions/continuous.h"
#include "libcore/distributions/discrete.h"
#include "libcore/distributions/distribution.h"
#include "libcore/distributions/gamma.h"
#include "libcore/distributions/kl.h"
#include "libcore/distributions/multivariate_normal.h"
#include "libcore/distributions/transform.h"
#include "libcore/distributions/transformed.h"
#include "libcore/distributions/transforms.h"
