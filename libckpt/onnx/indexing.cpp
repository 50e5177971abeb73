// Elements read and written by index as ONNX operators.
#include <algorithm>
#include <numeric>
#include <string>

#include "libckpt/onnx/step.h"

namespace ckpt::onnx {
namespace {

using core::DType;

std::int64_t axis_of(Step& s) {
  return s.wrapped(s.integer("dim"), s.rank());
}

void index_select(Step& s) {
  s.set(s.value("Gather", {s.in(0), s.in(1)}, {{"axis", axis_of(s)}}));
}
void gather(Step& s) {
  s.set(s.value("GatherElements", {s.in(0), s.in(1)}, {{"axis", axis_of(s)}}));
}
/// Of all elements as one line.
void take(Step& s) {
  const std::string line = s.value("Reshape", {s.in(0), s.graph().list(Integers{-1})});
  s.set(s.value("Gather", {line, s.in(1)}, {{"axis", std::int64_t{0}}}));
}

/// What x[..., i, j, ...] is made of: the dimensions that are indexed, and where the result has those of the indices.
struct Indexed {
  Integers dims, free;
  std::int64_t common = 0, place = 0;
};
Indexed indexed(Step& s) {
  Indexed all;
  for (std::int64_t d = 0; d < s.rank(); ++d) {
    const auto at = static_cast<std::size_t>(d) + 1;
    (s.has(at) ? all.dims : all.free).push_back(d);
    if (s.has(at)) all.common = std::max(all.common, s.input(at).dim());
  }
  const auto count = static_cast<std::int64_t>(all.dims.size());
  const bool together = all.dims.back() - all.dims.front() == count - 1;
  all.place = together ? all.dims.front() : 0;
  return all;
}

/// The indices as one tensor: (their common sizes..., count). They are made of one size by adding nothing.
std::string stacked(Step& s, const Indexed& all) {
  std::string none;
  for (const std::int64_t d : all.dims) {
    const auto at = static_cast<std::size_t>(d) + 1;
    const std::string nothing = s.value("Mul", {s.in(at), s.graph().scalar(0, DType::i64)});
    none = none.empty() ? nothing : s.value("Add", {none, nothing});
  }
  std::vector<std::string> parts;
  for (const std::int64_t d : all.dims) {
    const std::string wide = s.value("Add", {s.in(static_cast<std::size_t>(d) + 1), none});
    parts.push_back(s.value("Unsqueeze", {wide, s.graph().list(Integers{-1})}));
  }
  return parts.size() == 1 ? parts[0] : s.value("Concat", std::move(parts), {{"axis", std::int64_t{-1}}});
}

/// The indexed dimensions in front, picked, and the new ones moved to their place.
void index(Step& s) {
  const Indexed all = indexed(s);
  if (all.dims.size() == 1) {
    const auto at = static_cast<std::size_t>(all.dims[0]) + 1;
    return s.set(s.value("Gather", {s.in(0), s.in(at)}, {{"axis", all.dims[0]}}));
  }
  Integers order = all.dims;
  order.insert(order.end(), all.free.begin(), all.free.end());
  std::string x = s.in(0);
  if (!std::is_sorted(order.begin(), order.end())) x = s.value("Transpose", {x}, {{"perm", order}});
  std::string y = s.value("GatherND", {x, stacked(s, all)});
  if (all.place > 0) {
    Integers back;
    for (std::int64_t d = 0; d < all.place; ++d) back.push_back(all.common + d);
    for (std::int64_t d = 0; d < all.common; ++d) back.push_back(d);
    for (auto d = static_cast<std::size_t>(all.place); d < all.free.size(); ++d) {
      back.push_back(all.common + static_cast<std::int64_t>(d));
    }
    y = s.value("Transpose", {y}, {{"perm", back}});
  }
  s.set(y);
}

/// `values` cut to the sizes of the index, as it may be larger.
std::string cut_to_index(Step& s, const std::string& values) {
  if (s.input(1).sizes() == s.input(2).sizes()) return values;
  Integers axes(static_cast<std::size_t>(s.rank(1)));
  std::iota(axes.begin(), axes.end(), 0);
  const std::string start = s.graph().list(Integers(axes.size(), 0));
  return s.value("Slice", {values, start, s.graph().list(s.input_sizes(1)), s.graph().list(axes)});
}

void scatter_by(Step& s, const std::string& index, const std::string& values, const std::string& reduction) {
  if (s.rank() == 0) s.refuse("a tensor without dimensions has no operator");
  std::vector<Attribute> attributes = {{"axis", axis_of(s)}};
  if (!reduction.empty()) attributes.push_back({"reduction", reduction});
  s.set(s.value("ScatterElements", {s.in(0, s.dtype()), index, values}, std::move(attributes)));
}
void scatter(Step& s) {
  scatter_by(s, s.in(1), cut_to_index(s, s.in(2, s.dtype())), "");
}
void scatter_add(Step& s) {
  scatter_by(s, s.in(1), cut_to_index(s, s.in(2, s.dtype())), "add");
}
void scatter_value(Step& s) {
  const std::string values = s.value("Expand", {s.scalar(s.scalar_of("value")), s.graph().list(s.input_sizes(1))});
  scatter_by(s, s.in(1), values, "");
}
void scatter_reduce(Step& s) {
  const std::string kind = s.text("reduce");
  if (!s.flag("include_self")) s.refuse("only with what stood there (include_self) it has an operator");
  if (kind == "mean") s.refuse("a mean has no operator");
  const bool extreme = kind == "amax" || kind == "amin";
  if (extreme && s.graph().opset() < 18) s.refuse("an extreme has an operator from opset 18 on");
  const std::string reduction = kind == "sum" ? "add" : kind == "prod" ? "mul" : kind == "amax" ? "max" : "min";
  scatter_by(s, s.in(1), cut_to_index(s, s.in(2, s.dtype())), reduction);
}

/// An index of rows as one of elements: of the sizes given, along the dimension.
std::string of_elements(Step& s, const std::vector<SizeTerm>& sizes) {
  std::string index = s.in(1, DType::i64);
  Integers shape(static_cast<std::size_t>(s.rank()), 1);
  shape[static_cast<std::size_t>(axis_of(s))] = -1;
  index = s.value("Reshape", {index, s.graph().list(shape)});
  return s.value("Expand", {index, s.graph().list(sizes)});
}
void index_add(Step& s) {
  scatter_by(s, of_elements(s, s.input_sizes(2)), s.in(2, s.dtype()), "add");
}
void index_copy(Step& s) {
  scatter_by(s, of_elements(s, s.input_sizes(2)), s.in(2, s.dtype()), "");
}
void index_fill(Step& s) {
  std::vector<SizeTerm> sizes = s.input_sizes(0);
  sizes[static_cast<std::size_t>(axis_of(s))] =
      s.rank(1) == 0 ? SizeTerm{.factor = 0, .sizes = {}, .offset = 1} : s.input_sizes(1)[0];
  const std::string values = s.value("Expand", {s.scalar(s.scalar_of("value")), s.graph().list(sizes)});
  scatter_by(s, of_elements(s, sizes), values, "");
}

void one_hot(Step& s) {
  const std::string depth = s.graph().scalar(static_cast<double>(s.integer("classes")), DType::i64);
  s.set(s.value("OneHot", {s.in(0), depth, s.graph().list(Integers{0, 1})}, {{"axis", std::int64_t{-1}}}));
}

}  // namespace

std::vector<NamedWriter> indexing_writers() {
  return {{"index_select", index_select},
          {"gather", gather},
          {"take", take},
          {"index", index},
          {"scatter", scatter},
          {"scatter_add", scatter_add},
          {"scatter_value", scatter_value},
          {"scatter_reduce", scatter_reduce},
          {"index_add", index_add},
          {"index_copy", index_copy},
          {"index_fill", index_fill},
          {"one_hot", one_hot}};
}

}  // namespace ckpt::onnx
