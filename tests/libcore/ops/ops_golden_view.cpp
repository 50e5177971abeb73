#include "libcore/ops/blas.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/index.h"
#include "libcore/ops/join.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/pad.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/scatter.h"
#include "libcore/parallel/comm.h"
#include "libcore/parallel/scatter_gather.h"
#include "libcore/tensor/factory.h"
#include "tests/libcore/ops/ops_golden.h"

namespace test {
namespace {

using core::Shape;
using core::Tensor;

std::int64_t arg(const OpCase& c, std::size_t i) {
  return integer(c.args[i]);
}

Shape whole_shape(Json value) {
  return OpCase::shape_of(value);
}

template <class F>
OpCall one(F function) {
  return {[function](const OpCase& c) { return std::vector<Tensor>{function(c)}; }, true};
}

void add_view_calls(OpCalls& calls) {
  calls["Tensor.view"] = one([](const OpCase& c) { return c.in[0].view(whole_shape(c.args[0])); });
  calls["Tensor.reshape"] = one([](const OpCase& c) { return c.in[0].reshape(whole_shape(c.args[0])); });
  calls["Tensor.flatten"] =
      one([](const OpCase& c) { return c.in[0].flatten(c.integer("start_dim", 0), c.integer("end_dim", -1)); });
  calls["Tensor.unflatten"] =
      one([](const OpCase& c) { return c.in[0].unflatten(c.integer("dim", 0), c.shape("sizes")); });
  calls["Tensor.transpose"] = one([](const OpCase& c) { return c.in[0].transpose(arg(c, 0), arg(c, 1)); });
  calls["Tensor.t"] = one([](const OpCase& c) { return c.in[0].t(); });
  calls["Tensor.permute"] = one([](const OpCase& c) { return c.in[0].permute(whole_shape(c.args[0])); });
  calls["Tensor.movedim"] = one([](const OpCase& c) { return c.in[0].movedim(arg(c, 0), arg(c, 1)); });
  calls["Tensor.expand"] = one([](const OpCase& c) { return c.in[0].expand(whole_shape(c.args[0])); });
  calls["Tensor.expand_as"] = one([](const OpCase& c) { return c.in[0].expand_as(c.in[1]); });
  calls["Tensor.squeeze"] =
      one([](const OpCase& c) { return c.args.empty() ? c.in[0].squeeze() : c.in[0].squeeze(arg(c, 0)); });
  calls["Tensor.unsqueeze"] = one([](const OpCase& c) { return c.in[0].unsqueeze(arg(c, 0)); });
  calls["Tensor.select"] = one([](const OpCase& c) { return c.in[0].select(arg(c, 0), arg(c, 1)); });
  calls["Tensor.narrow"] = one([](const OpCase& c) { return c.in[0].narrow(arg(c, 0), arg(c, 1), arg(c, 2)); });
  calls["Tensor.unfold"] = one([](const OpCase& c) { return c.in[0].unfold(arg(c, 0), arg(c, 1), arg(c, 2)); });
  calls["Tensor.diagonal"] = one([](const OpCase& c) { return c.in[0].diagonal(); });
  calls["Tensor.contiguous"] = one([](const OpCase& c) { return c.in[0].contiguous(); });
  calls["Tensor.clone"] = one([](const OpCase& c) { return c.in[0].clone(); });
  calls["to"] = one([](const OpCase& c) { return c.in[0].to(dtype(member(c.kwargs, "dtype"))); });
  calls["torch.chunk"] = {[](const OpCase& c) { return c.in[0].chunk(c.integer("chunks", 1), c.integer("dim", 0)); },
                          true};
  calls["torch.split"] = {[](const OpCase& c) {
                            std::int64_t dim = c.integer("dim", 0);
                            return c.args[0].is_array() ? c.in[0].split(whole_shape(c.args[0]), dim)
                                                        : c.in[0].split(arg(c, 0), dim);
                          },
                          true};
  calls["torch.unbind"] = {[](const OpCase& c) { return c.in[0].unbind(c.integer("dim", 0)); }, true};
}

void add_rearranging_calls(OpCalls& calls) {
  calls["list.torch.cat"] = one([](const OpCase& c) { return core::cat(c.in, c.integer("dim", 0)); });
  calls["list.torch.stack"] = one([](const OpCase& c) { return core::stack(c.in, c.integer("dim", 0)); });
  calls["Tensor.repeat"] = one([](const OpCase& c) { return c.in[0].repeat(whole_shape(c.args[0])); });
  calls["torch.flip"] = one([](const OpCase& c) { return core::flip(c.in[0], c.shape("dims")); });
  calls["torch.roll"] = one([](const OpCase& c) { return core::roll(c.in[0], c.shape("shifts"), c.shape("dims")); });
  calls["torch.tril"] = one([](const OpCase& c) { return core::tril(c.in[0], c.integer("diagonal", 0)); });
  calls["torch.triu"] = one([](const OpCase& c) { return core::triu(c.in[0], c.integer("diagonal", 0)); });
  calls["torch.masked_select"] = one([](const OpCase& c) { return core::masked_select(c.in[0], c.in[1]); });
  calls["torch.gather"] = one([](const OpCase& c) { return core::gather(c.in[0], c.integer("dim", 0), c.in[1]); });
  calls["torch.take_along_dim"] = calls["torch.gather"];
  calls["torch.index_select"] =
      one([](const OpCase& c) { return core::index_select(c.in[0], c.integer("dim", 0), c.in[1]); });
  calls["torch.scatter"] =
      one([](const OpCase& c) { return core::scatter(c.in[0], c.integer("dim", 0), c.in[1], c.in[2]); });
  calls["torch.scatter_add"] =
      one([](const OpCase& c) { return core::scatter_add(c.in[0], c.integer("dim", 0), c.in[1], c.in[2]); });
  calls["torch.index_add"] =
      one([](const OpCase& c) { return core::index_add(c.in[0], c.integer("dim", 0), c.in[1], c.in[2]); });
  calls["getitem_mask"] = one([](const OpCase& c) { return core::index(c.in[0], {c.in[1]}); });
  calls["getitem_tensor"] = calls["getitem_mask"];
}

std::optional<std::int64_t> bound(Json value) {
  return is_null(value) ? std::nullopt : std::optional(integer(value));
}

Tensor index_tensor(Json list) {
  std::vector<std::int64_t> values;
  Shape sizes;
  auto rows = items(list);
  sizes.push_back(static_cast<std::int64_t>(rows.size()));
  for (Json item : rows) {
    if (!item.is_array()) {
      values.push_back(integer(item));
      continue;
    }
    auto row = integers(item);
    if (sizes.size() == 1) sizes.push_back(static_cast<std::int64_t>(row.size()));
    values.insert(values.end(), row.begin(), row.end());
  }
  return core::from_values(std::span<const std::int64_t>(values), sizes);
}

core::TensorIndex index_item(Json item) {
  auto parts = items(item);
  std::string kind = text(parts.at(0));
  if (kind == "int") return integer(parts.at(1));
  if (kind == "slice") {
    return core::Slice{bound(parts.at(1)), bound(parts.at(2)), bound(parts.at(3)).value_or(1)};
  }
  if (kind == "list") return index_tensor(parts.at(1));
  if (kind == "ellipsis") return core::Ellipsis();
  return core::NewAxis();
}

void add_getitem(OpCalls& calls) {
  calls["getitem"] = one([](const OpCase& c) {
    std::vector<core::TensorIndex> index;
    for (Json item : items(member(c.kwargs, "index"))) index.push_back(index_item(item));
    return core::index(c.in[0], index);
  });
}

core::TensorOptions no_options() {
  return {};
}

void add_factory_calls(OpCalls& calls) {
  calls["factory.arange"] = one([](const OpCase& c) {
    auto n = [&](std::size_t i) { return OpCase::scalar_of(c.args[i]); };
    if (c.args.size() == 1) return core::arange(n(0));
    return c.args.size() == 2 ? core::arange(n(0), n(1)) : core::arange(n(0), n(1), n(2));
  });
  calls["factory.linspace"] = {
      [](const OpCase& c) { return std::vector{core::linspace(number(c.args[0]), number(c.args[1]), arg(c, 2))}; }};
  calls["factory.eye"] = one([](const OpCase& c) { return core::eye(arg(c, 0), arg(c, 1)); });
  calls["factory.full"] =
      one([](const OpCase& c) { return core::full(whole_shape(c.args[0]), OpCase::scalar_of(c.args[1])); });
  calls["factory.zeros"] = one([](const OpCase& c) { return core::zeros(whole_shape(c.args[0]), no_options()); });
  calls["factory.ones"] = one([](const OpCase& c) { return core::ones(whole_shape(c.args[0]), no_options()); });
}

}  // namespace

void add_shape_calls(OpCalls& calls) {
  add_view_calls(calls);
  add_rearranging_calls(calls);
  add_getitem(calls);
  add_factory_calls(calls);
}

void add_matmul_calls(OpCalls& calls) {
  using Product = Tensor (*)(const Tensor&, const Tensor&);
  const std::pair<const char*, Product> all[] = {{"torch.matmul", core::matmul}, {"torch.mm", core::mm},
                                                 {"torch.bmm", core::bmm},       {"torch.mv", core::mv},
                                                 {"torch.dot", core::dot},       {"torch.outer", core::outer}};
  for (auto [name, function] : all) {
    calls[name] = {[f = function](const OpCase& c) { return std::vector{f(c.in[0], c.in[1])}; }};
  }
  calls["torch.addmm"] = {[](const OpCase& c) {
    return std::vector{core::addmm(c.in[0], c.in[1], c.in[2], c.scalar("beta", 1), c.scalar("alpha", 1))};
  }};
  calls["F.linear"] = {[](const OpCase& c) {
    return std::vector{core::linear(c.in[0], c.in[1], c.in.size() > 2 ? c.in[2] : Tensor())};
  }};
}

void add_in_place_calls(OpCalls& calls) {
  auto add = [&](const char* name, auto function) {
    calls[std::string("inplace.") + name] = {[function](const OpCase& c) {
      Tensor x = c.in[0].clone();
      function(x, c);
      return std::vector{x};
    }};
  };
  add("add_", [](const Tensor& x, const OpCase& c) { x.add_(c.in[1]); });
  add("sub_", [](const Tensor& x, const OpCase& c) { x.sub_(c.in[1]); });
  add("mul_", [](const Tensor& x, const OpCase& c) { x.mul_(c.in[1]); });
  add("div_", [](const Tensor& x, const OpCase& c) { x.div_(c.in[1]); });
  add("relu_", [](const Tensor& x, const OpCase&) { x.relu_(); });
  add("zero_", [](const Tensor& x, const OpCase&) { x.zero_(); });
  add("exp_", [](const Tensor& x, const OpCase&) { x.exp_(); });
  add("neg_", [](const Tensor& x, const OpCase&) { x.neg_(); });
  add("sigmoid_", [](const Tensor& x, const OpCase&) { x.sigmoid_(); });
  add("tanh_", [](const Tensor& x, const OpCase&) { x.tanh_(); });
  add("abs_", [](const Tensor& x, const OpCase&) { x.abs_(); });
  add("clamp_", [](const Tensor& x, const OpCase& c) { x.clamp_(c.scalar("min", 0), c.scalar("max", 0)); });
  add("fill_", [](const Tensor& x, const OpCase& c) { x.fill_(OpCase::scalar_of(c.args[0])); });
  add("masked_fill_", [](const Tensor& x, const OpCase& c) { x.masked_fill_(c.in[1], OpCase::scalar_of(c.args[0])); });
  add("copy_", [](const Tensor& x, const OpCase& c) { x.copy_(c.in[1]); });
  add("addcmul_", [](const Tensor& x, const OpCase& c) { x.addcmul_(c.in[1], c.in[2], c.scalar("value", 1)); });
}

}  // namespace test
