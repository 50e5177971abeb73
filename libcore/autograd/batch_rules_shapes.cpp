// Views, parts, joins and repetitions, on all samples at once.
#include "libcore/autograd/batch_rules.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/join.h"
#include "libcore/ops/pad.h"

namespace core::func::detail {
namespace {

/// The samples in front, and each of the sizes that the first one got.
Results reshaped(const BatchedCall& c) {
  return {c.batches[0].reshape(c.output_sizes())};
}

Results expand_rule(const BatchedCall& c) {
  return {c.aligned(0, c.output().dim()).expand(c.output_sizes())};
}

Results permute_rule(const BatchedCall& c) {
  Shape order{0};
  for (const std::int64_t d : c.shape("dims")) order.push_back(c.behind(d, c.rank()));
  return {c.batches[0].permute(order)};
}
Results transpose_rule(const BatchedCall& c) {
  if (c.rank() == 0) return {c.batches[0]};
  return {c.batches[0].transpose(c.integer("dim0") + 1, c.integer("dim1") + 1)};
}
Results t_rule(const BatchedCall& c) {
  if (c.rank() < 2) return {c.batches[0].view_as(c.batches[0])};
  return {c.batches[0].transpose(1, 2)};
}

Results select_rule(const BatchedCall& c) {
  return {c.batches[0].select(c.integer("dim") + 1, c.integer("index"))};
}
Results slice_rule(const BatchedCall& c) {
  return {c.batches[0].slice(c.integer("dim") + 1, c.integer("start"), c.integer("end"), c.integer("step"))};
}
Results split_rule(const BatchedCall& c) {
  const std::int64_t dim = c.integer("dim");
  Shape lengths;
  for (const Tensor& part : c.outputs) lengths.push_back(part.size(dim));
  return c.batches[0].split(lengths, dim + 1);
}
Results unbind_rule(const BatchedCall& c) {
  return c.batches[0].unbind(c.integer("dim") + 1);
}

Results all_parts(const BatchedCall& c) {
  Results parts;
  for (std::size_t i = 0; i < c.count(); ++i) parts.push_back(c.each(i));
  return parts;
}
Results cat_rule(const BatchedCall& c) {
  for (std::size_t i = 0; i < c.count(); ++i) {
    if (c.rank(i) != c.output().dim()) no_batch_rule();
  }
  return {cat(all_parts(c), c.behind(c.integer("dim"), c.output().dim()))};
}
Results stack_rule(const BatchedCall& c) {
  return {stack(all_parts(c), c.behind(c.integer("dim"), c.output().dim()))};
}

Results repeat_rule(const BatchedCall& c) {
  Shape times{1};
  for (const std::int64_t each : c.shape("times")) times.push_back(each);
  return {repeat(c.aligned(0, static_cast<std::int64_t>(times.size()) - 1), times)};
}
Results roll_rule(const BatchedCall& c) {
  Shape dims;
  for (const std::int64_t d : c.shape("dims")) dims.push_back(c.behind(d, c.rank()));
  if (!dims.empty()) return {roll(c.batches[0], c.shape("shifts"), dims)};
  return {roll(c.batches[0].flatten(1), c.shape("shifts"), {1}).view(c.output_sizes())};
}
Results flip_rule(const BatchedCall& c) {
  Shape dims;
  for (const std::int64_t d : c.shape("dims")) dims.push_back(c.behind(d, c.rank()));
  return {flip(c.batches[0], dims)};
}
Results tril_rule(const BatchedCall& c) {
  return {tril(c.batches[0], c.integer("diagonal"))};
}
Results triu_rule(const BatchedCall& c) {
  return {triu(c.batches[0], c.integer("diagonal"))};
}

/// Other modes than zeros take one dimension in front of channels at most: the samples join it.
Results pad_rule(const BatchedCall& c) {
  const Shape pads = c.shape("pads");
  const PaddingMode mode = parse_padding_mode(c.text("mode"));
  if (mode == PaddingMode::zeros) return {pad_constant(c.batches[0], pads, c.scalar("value"))};
  const bool has_batch = c.rank() == static_cast<std::int64_t>(pads.size()) / 2 + 2;
  if (!has_batch) return {pad(c.batches[0], pads, mode)};
  return {pad(c.batches[0].flatten(0, 1), pads, mode).reshape(c.output_sizes())};
}

Results clone_rule(const BatchedCall& c) {
  return {c.batches[0].clone()};
}
Results contiguous_rule(const BatchedCall& c) {
  return {c.batches[0].contiguous()};
}
Results detach_rule(const BatchedCall& c) {
  return {c.batches[0].detach()};
}
Results to_rule(const BatchedCall& c) {
  return {c.batches[0].to(c.output().dtype())};
}

}  // namespace

std::vector<NamedBatchRule> shape_batch_rules() {
  return {{"view", reshaped},
          {"reshape", reshaped},
          {"squeeze", reshaped},
          {"unsqueeze", reshaped},
          {"expand", expand_rule},
          {"permute", permute_rule},
          {"transpose", transpose_rule},
          {"t", t_rule},
          {"select", select_rule},
          {"slice", slice_rule},
          {"split", split_rule},
          {"unbind", unbind_rule},
          {"cat", cat_rule},
          {"stack", stack_rule},
          {"repeat", repeat_rule},
          {"roll", roll_rule},
          {"flip", flip_rule},
          {"tril", tril_rule},
          {"triu", triu_rule},
          {"pad", pad_rule},
          {"clone", clone_rule},
          {"contiguous", contiguous_rule},
          {"detach", detach_rule},
          {"to", to_rule}};
}

}  // namespace core::func::detail
