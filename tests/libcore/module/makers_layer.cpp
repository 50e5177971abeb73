// Linear, normalisation, embedding and rearranging layers.
#include "libcore/module/embedding.h"
#include "libcore/module/image.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"
#include "tests/libcore/module/module_makers.h"

namespace test {
namespace {

using core::AnyModule;

core::BatchNormOptions batch_norm_options(Arguments& a) {
  core::BatchNormOptions o;
  o.eps = a.number(1, "eps", o.eps);
  const auto momentum = a.get(2, "momentum");
  if (momentum) o.momentum = is_null(*momentum) ? std::nullopt : std::optional<double>(number(*momentum));
  o.affine = a.flag(3, "affine", true);
  o.track_running_stats = a.flag(4, "track_running_stats", true);
  o.bias = a.flag(99, "bias", true);
  return o;
}

template <class M>
AnyModule make_batch_norm(Arguments& a) {
  const std::int64_t features = a.integer(0, "num_features");
  return M(features, batch_norm_options(a));
}

template <class M>
AnyModule make_instance_norm(Arguments& a) {
  core::InstanceNormOptions o;
  const std::int64_t features = a.integer(0, "num_features");
  o.eps = a.number(1, "eps", o.eps);
  o.momentum = a.number(2, "momentum", o.momentum);
  o.affine = a.flag(3, "affine", false);
  o.track_running_stats = a.flag(4, "track_running_stats", false);
  return M(features, o);
}

AnyModule make_layer_norm(Arguments& a) {
  const Json shape = *a.get(0, "normalized_shape");
  core::LayerNormOptions o;
  o.eps = a.number(1, "eps", o.eps);
  o.elementwise_affine = a.flag(2, "elementwise_affine", true);
  o.bias = a.flag(3, "bias", true);
  return core::LayerNorm(shape.is_array() ? core::Shape(integers(shape)) : core::Shape{integer(shape)}, o);
}

AnyModule make_embedding(Arguments& a) {
  const std::int64_t count = a.integer(0, "num_embeddings"), width = a.integer(1, "embedding_dim");
  core::EmbeddingOptions o;
  const auto padding = a.get(2, "padding_idx");
  if (padding) o.padding_idx = integer(*padding);
  const auto max_norm = a.get(3, "max_norm");
  if (max_norm) o.max_norm = number(*max_norm);
  o.norm_type = a.number(4, "norm_type", 2);
  o.scale_grad_by_freq = a.flag(5, "scale_grad_by_freq", false);
  o.sparse = a.flag(6, "sparse", false);
  return core::Embedding(count, width, o);
}

AnyModule make_embedding_bag(Arguments& a) {
  const std::int64_t count = a.integer(0, "num_embeddings"), width = a.integer(1, "embedding_dim");
  core::EmbeddingBagOptions o;
  const std::string mode = a.word(99, "mode", "mean");
  o.mode = mode == "sum" ? core::BagMode::sum : mode == "max" ? core::BagMode::max : core::BagMode::mean;
  return core::EmbeddingBag(count, width, o);
}

AnyModule make_linear(Arguments& a) {
  const std::int64_t in = a.integer(0, "in_features"), out = a.integer(1, "out_features");
  const bool bias = a.flag(2, "bias", true);
  return core::Linear(in, out, {.bias = bias, .dtype = a.dtype()});
}

AnyModule make_bilinear(Arguments& a) {
  const std::int64_t in1 = a.integer(0, "in1_features"), in2 = a.integer(1, "in2_features");
  const std::int64_t out = a.integer(2, "out_features");
  return core::Bilinear(in1, in2, out, {.bias = a.flag(3, "bias", true)});
}

AnyModule make_group_norm(Arguments& a) {
  const std::int64_t groups = a.integer(0, "num_groups"), channels = a.integer(1, "num_channels");
  core::GroupNormOptions o;
  o.eps = a.number(2, "eps", o.eps);
  o.affine = a.flag(3, "affine", true);
  return core::GroupNorm(groups, channels, o);
}

AnyModule make_rms_norm(Arguments& a) {
  core::RmsNormOptions o;
  const core::Shape shape = a.sizes(0, "normalized_shape");
  const auto eps = a.get(1, "eps");
  if (eps) o.eps = number(*eps);
  o.elementwise_affine = a.flag(2, "elementwise_affine", true);
  return core::RMSNorm(shape, o);
}

AnyModule make_response_norm(Arguments& a) {
  const std::int64_t size = a.integer(0, "size");
  core::ResponseNormOptions o;
  o.alpha = a.number(1, "alpha", o.alpha);
  o.beta = a.number(2, "beta", o.beta);
  o.k = a.number(3, "k", o.k);
  return core::LocalResponseNorm(size, o);
}

}  // namespace

void add_layer_makers(Makers& makers) {
  makers["Linear"] = make_linear;
  makers["Bilinear"] = make_bilinear;
  makers["BatchNorm1d"] = make_batch_norm<core::BatchNorm1d>;
  makers["BatchNorm2d"] = make_batch_norm<core::BatchNorm2d>;
  makers["BatchNorm3d"] = make_batch_norm<core::BatchNorm3d>;
  makers["InstanceNorm1d"] = make_instance_norm<core::InstanceNorm1d>;
  makers["InstanceNorm2d"] = make_instance_norm<core::InstanceNorm2d>;
  makers["InstanceNorm3d"] = make_instance_norm<core::InstanceNorm3d>;
  makers["LayerNorm"] = make_layer_norm;
  makers["GroupNorm"] = make_group_norm;
  makers["RMSNorm"] = make_rms_norm;
  makers["LocalResponseNorm"] = make_response_norm;
  makers["Embedding"] = make_embedding;
  makers["EmbeddingBag"] = make_embedding_bag;
  makers["Flatten"] = [](Arguments& a) -> AnyModule {
    const std::int64_t start = a.integer(0, "start_dim", 1);
    return core::Flatten(start, a.integer(1, "end_dim", -1));
  };
  makers["Unflatten"] = [](Arguments& a) -> AnyModule {
    const std::int64_t dim = a.integer(0, "dim");
    return core::Unflatten(dim, a.sizes(1, "unflattened_size"));
  };
  makers["CosineSimilarity"] = [](Arguments&) -> AnyModule { return core::CosineSimilarity(); };
  makers["PairwiseDistance"] = [](Arguments& a) -> AnyModule {
    return core::PairwiseDistance({.p = a.number(0, "p", 2)});
  };
}

}  // namespace test
