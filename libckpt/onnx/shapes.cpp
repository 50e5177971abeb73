// Shapes, parts, joins and ranges as ONNX operators.
#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "libckpt/onnx/step.h"
#include "libcore/tensor/factory.h"

namespace ckpt::onnx {
namespace {

using core::DType;

/// With one size that may differ, that is the one to be found: -1.
std::string target(Step& s) {
  std::vector<SizeTerm> sizes = s.output_sizes();
  const auto follows = [](const SizeTerm& term) { return !term.is_constant(); };
  if (std::count_if(sizes.begin(), sizes.end(), follows) == 1) {
    *std::find_if(sizes.begin(), sizes.end(), follows) = {.factor = 0, .sizes = {}, .offset = -1};
  }
  return s.graph().list(sizes);
}

/// Sizes of 0 are meant: without `allowzero` they stand for those of the input.
void reshape(Step& s) {
  const core::Shape& sizes = s.output().sizes();
  const bool empty = std::find(sizes.begin(), sizes.end(), 0) != sizes.end();
  if (!empty) return s.set(s.value("Reshape", {s.in(0), target(s)}));
  s.set(s.value("Reshape", {s.in(0), s.graph().list(s.output_sizes())}, {{"allowzero", std::int64_t{1}}}));
}

void permute_by(Step& s, Integers order) {
  s.set(s.value("Transpose", {s.in(0)}, {{"perm", std::move(order)}}));
}

void permute(Step& s) {
  Integers order = s.integers("dims");
  for (std::int64_t& d : order) d = s.wrapped(d, s.rank());
  permute_by(s, std::move(order));
}

void transpose(Step& s) {
  Integers order(static_cast<std::size_t>(s.rank()));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<std::size_t>(s.integer("dim0"))], order[static_cast<std::size_t>(s.integer("dim1"))]);
  permute_by(s, std::move(order));
}

void t(Step& s) {
  if (s.rank() < 2) return s.set(s.in(0));
  permute_by(s, {1, 0});
}

void expand(Step& s) {
  s.set(s.value("Expand", {s.in(0), s.graph().list(s.output_sizes())}));
}

/// One number of a list of one, as an index that drops the dimension.
void select(Step& s) {
  const SizeTerm at = s.term("index");
  std::string index = at.is_constant() ? s.graph().scalar(static_cast<double>(at.offset), DType::i64)
                                       : s.value("Squeeze", {s.graph().one(at)});
  s.set(s.value("Gather", {s.in(0), index}, {{"axis", s.integer("dim")}}));
}

std::string sliced(Step& s, const std::string& x, const std::string& start, const std::string& end, std::int64_t dim,
                   std::int64_t step) {
  return s.value("Slice", {x, start, end, s.graph().list(Integers{dim}), s.graph().list(Integers{step})});
}

constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();

void slice(Step& s) {
  const std::int64_t dim = s.integer("dim");
  const SizeTerm end = s.term("end"), whole = s.input_sizes(0)[static_cast<std::size_t>(dim)];
  const bool to_end = end.factor == whole.factor && end.sizes == whole.sizes && end.offset == whole.offset;
  s.set(sliced(s, s.in(0), s.graph().one(s.term("start")), to_end ? s.graph().list(Integers{kEnd}) : s.graph().one(end),
               dim, s.integer("step")));
}

void split(Step& s) {
  const std::int64_t dim = s.integer("dim");
  std::vector<SizeTerm> lengths;
  for (std::size_t i = 0; i < s.output_count(); ++i)
    lengths.push_back(s.output_sizes(i)[static_cast<std::size_t>(dim)]);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < s.output_count(); ++i) {
    names.push_back(s.graph().unique("split"));
    s.set(names.back(), i);
  }
  s.graph().node("Split", {s.in(0), s.graph().list(lengths)}, std::move(names), {{"axis", dim}});
}

void unbind(Step& s) {
  const std::int64_t dim = s.integer("dim");
  for (std::size_t i = 0; i < s.output_count(); ++i) {
    const std::string index = s.graph().scalar(static_cast<double>(i), DType::i64);
    s.set(s.value("Gather", {s.in(0), index}, {{"axis", dim}}), i);
  }
}

void cat(Step& s) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < s.input_count(); ++i) {
    if (s.input(i).dim() == s.output().dim()) parts.push_back(s.in(i, s.dtype()));
  }
  s.set(s.value("Concat", std::move(parts), {{"axis", s.wrapped(s.integer("dim"), s.output().dim())}}));
}

void stack(Step& s) {
  const std::int64_t dim = s.wrapped(s.integer("dim"), s.output().dim());
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < s.input_count(); ++i) {
    parts.push_back(s.value("Unsqueeze", {s.in(i, s.dtype()), s.graph().list(Integers{dim})}));
  }
  s.set(s.value("Concat", std::move(parts), {{"axis", dim}}));
}

void full(Step& s) {
  const std::string value = s.scalar(s.number("value"));
  s.set(s.value("Expand", {value, s.graph().list(s.output_sizes())}));
}

/// A number that may follow sizes, without dimensions.
std::string lone(Step& s, std::string_view key) {
  const SizeTerm term = s.term(key);
  if (term.is_constant()) return s.graph().scalar(static_cast<double>(term.offset), DType::i64);
  return s.value("Squeeze", {s.graph().one(term)});
}

void arange(Step& s) {
  for (const char* key : {"start", "end", "step"}) {
    if (std::get<core::Scalar>(s.op().find(key)->value).is_float()) s.refuse("only a range of integers may grow");
  }
  const std::string range = s.value("Range", {lone(s, "start"), lone(s, "end"), lone(s, "step")});
  s.set(s.cast(range, DType::i64, s.dtype()));
}

/// Of booleans by way of numbers, which every runtime has.
void triangle(Step& s, std::int64_t upper) {
  const DType dtype = s.dtype() == DType::boolean ? DType::f32 : s.dtype();
  const std::string part = s.value("Trilu", {s.in(0, dtype), lone(s, "diagonal")}, {{"upper", upper}});
  s.set(s.cast(part, dtype, s.dtype()));
}
void tril(Step& s) {
  triangle(s, 0);
}
void triu(Step& s) {
  triangle(s, 1);
}

/// Counted from the front, whatever its sign; of a size that may differ while it runs.
std::string cut_at(Step& s, const SizeTerm& size, std::int64_t shift) {
  if (size.is_constant()) {
    const std::int64_t n = size.offset, by = n == 0 ? 0 : ((shift % n) + n) % n;
    return s.graph().list(Integers{n - by});
  }
  const std::string whole = s.graph().one(size);
  return s.value("Sub", {whole, s.value("Mod", {s.graph().list(Integers{shift}), whole})});
}

std::string rolled(Step& s, const std::string& x, const SizeTerm& size, std::int64_t shift, std::int64_t dim) {
  const std::string cut = cut_at(s, size, shift), none = s.graph().list(Integers{0});
  const std::string end = s.graph().list(Integers{kEnd});
  return s.value("Concat", {sliced(s, x, cut, end, dim, 1), sliced(s, x, none, cut, dim, 1)}, {{"axis", dim}});
}

/// What falls off one end comes back at the other; without dimensions of all elements as one line.
void roll(Step& s) {
  const Integers shifts = s.integers("shifts"), dims = s.integers("dims");
  std::string x = s.in(0);
  if (dims.empty()) {
    std::vector<SizeTerm> sizes = s.input_sizes(0);
    if (std::any_of(sizes.begin(), sizes.end(), [](const SizeTerm& size) { return !size.is_constant(); })) {
      s.refuse("without dimensions it has operators for fixed sizes alone");
    }
    x = s.value("Reshape", {x, s.graph().list(Integers{-1})});
    x = rolled(s, x, {.factor = 0, .sizes = {}, .offset = s.input(0).numel()}, shifts.at(0), 0);
    return s.set(s.value("Reshape", {x, s.graph().list(sizes)}));
  }
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const std::int64_t dim = s.wrapped(dims[i], s.rank());
    x = rolled(s, x, s.input_sizes(0)[static_cast<std::size_t>(dim)], shifts[i], dim);
  }
  s.set(x);
}

/// From the last one to the first.
void flip(Step& s) {
  Integers dims = s.integers("dims");
  if (dims.empty()) return s.set(s.in(0));
  for (std::int64_t& d : dims) d = s.wrapped(d, s.rank());
  const auto all = [&](std::int64_t number) { return s.graph().list(Integers(dims.size(), number)); };
  s.set(s.value("Slice", {s.in(0), all(-1), all(-kEnd), s.graph().list(dims), all(-1)}));
}

void repeat(Step& s) {
  const Integers times = s.integers("times");
  std::string x = s.in(0);
  Integers front;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(times.size()) - s.rank(); ++d) front.push_back(d);
  if (!front.empty()) x = s.value("Unsqueeze", {x, s.graph().list(front)});
  s.set(s.value("Tile", {x, s.graph().list(times)}));
}

/// With what lies at the other end on both sides.
std::string wrapped_around(Step& s, const Integers& sides) {
  const auto rank = static_cast<std::size_t>(s.rank());
  std::string x = s.in(0);
  for (std::size_t d = 0; d < rank; ++d) {
    const std::int64_t before = sides[d], behind = sides[rank + d], dim = static_cast<std::int64_t>(d);
    if (before < 0 || behind < 0) s.refuse("circular padding that cuts has no operator");
    std::vector<std::string> parts;
    const auto part = [&](std::int64_t from, std::int64_t to) {
      return sliced(s, x, s.graph().list(Integers{from}), s.graph().list(Integers{to}), dim, 1);
    };
    if (before > 0) parts.push_back(part(-before, kEnd));
    parts.push_back(x);
    if (behind > 0) parts.push_back(part(0, behind));
    if (parts.size() > 1) x = s.value("Concat", std::move(parts), {{"axis", dim}});
  }
  return x;
}

/// Pairs from the last dimension on become all first ones, then all last ones.
void pad(Step& s) {
  const Integers pads = s.integers("pads");
  const std::string mode = s.text("mode");
  const auto rank = static_cast<std::size_t>(s.rank());
  Integers sides(2 * rank, 0);
  for (std::size_t i = 0; i < pads.size() / 2; ++i) {
    sides[rank - 1 - i] = pads[2 * i];
    sides[2 * rank - 1 - i] = pads[2 * i + 1];
  }
  if (mode == "circular") return s.set(wrapped_around(s, sides));
  const char* name = mode == "reflect" ? "reflect" : mode == "replicate" ? "edge" : "constant";
  const std::string value = mode == "zeros" || mode == "constant" ? s.scalar(s.number("value")) : "";
  s.set(s.value("Pad", {s.in(0), s.graph().list(sides), value}, {{"mode", std::string(name)}}));
}

}  // namespace

std::vector<NamedWriter> shape_writers() {
  return {{"view", reshape},
          {"reshape", reshape},
          {"squeeze", reshape},
          {"unsqueeze", reshape},
          {"permute", permute},
          {"transpose", transpose},
          {"t", t},
          {"expand", expand},
          {"select", select},
          {"slice", slice},
          {"split", split},
          {"unbind", unbind},
          {"cat", cat},
          {"stack", stack},
          {"full", full},
          {"arange", arange},
          {"tril", tril},
          {"triu", triu},
          {"roll", roll},
          {"flip", flip},
          {"repeat", repeat},
          {"pad", pad}};
}

}  // namespace ckpt::onnx
