#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "libcore/base/error.h"
#include "libcore/dist/collectives.h"
#include "libcore/dist/init.h"
#include "libcore/ops/copy.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "tests/libcore/dist/golden_parts.h"
#include "tests/libcore/dist/rank_gpus.h"
#include "tests/libcore/dist/ranks.h"
#include "tests/libcore/module/module_spec.h"
#include "tests/support/sha256.h"

namespace test {
namespace {

namespace dist = core::distributed;
using core::Tensor;
using Tensors = std::vector<Tensor>;

dist::ReduceOp op_named(const std::string& name) {
  for (int i = 0; i < 8; ++i) {
    if (dist::name(static_cast<dist::ReduceOp>(i)) == name) return static_cast<dist::ReduceOp>(i);
  }
  throw std::runtime_error("unknown reduction " + name);
}

struct Case {
  std::string what;
  core::DType dtype;
  std::int64_t n;
  std::int64_t seed;
  int root;
  dist::ReduceOp op;
  int rank = dist::get_rank();
  int size = dist::get_world_size();

  Tensor value(std::int64_t count, std::int64_t offset) const {
    return golden_value(dtype, count, seed + offset).to(rank_device());
  }
  Tensor own() const { return value(n, rank); }
  Tensor room(std::int64_t count) const { return core::zeros({count}, {.dtype = dtype, .device = rank_device()}); }
  Tensors rooms() const {
    Tensors list;
    for (int q = 0; q < size; ++q) list.push_back(room(n));
    return list;
  }
  Tensors values(std::int64_t offset) const {
    Tensors list;
    for (int q = 0; q < size; ++q) list.push_back(value(n, offset + q));
    return list;
  }
};

Tensors all_to_all_uneven(const Case& c) {
  std::vector<std::int64_t> to(static_cast<std::size_t>(c.size));
  std::iota(to.begin(), to.end(), c.rank + 1);
  const std::int64_t total = std::accumulate(to.begin(), to.end(), std::int64_t{0});
  const Tensor out = c.room(total);
  dist::all_to_all_single(out, c.value(total, 1000 * c.rank), {.output_split_sizes = to, .input_split_sizes = to});
  return {out};
}

Tensors send_recv(const Case& c) {
  const Tensor in = c.room(c.n);
  const dist::Work sent = dist::isend(c.own(), (c.rank + 1) % c.size);
  dist::recv(in, (c.rank + c.size - 1) % c.size);
  sent.wait();
  return {in};
}

/// Those that give one tensor.
Tensors one_result(const Case& c) {
  const Tensor whole = c.what.ends_with("_single") ? c.value(c.n * c.size, 1000 * c.rank) : Tensor();
  if (c.what == "all_to_all_single") {
    const Tensor out = c.room(c.n * c.size);
    dist::all_to_all_single(out, whole);
    return {out};
  }
  const Tensor out = c.room(c.what == "all_gather_into_tensor" ? c.n * c.size : c.n);
  if (c.what == "all_gather_into_tensor") {
    dist::all_gather_into_tensor(out, c.own());
  } else if (c.what == "reduce_scatter") {
    dist::reduce_scatter(out, c.values(1000 * c.rank), {.op = c.op});
  } else if (c.what == "reduce_scatter_tensor") {
    dist::reduce_scatter_tensor(out, c.value(c.n * c.size, 1000 * c.rank), {.op = c.op});
  } else if (c.what == "scatter") {
    dist::scatter(out, c.rank == c.root ? c.values(1000) : Tensors(), c.root);
  } else {
    throw std::runtime_error("skip: no collective is called " + c.what);
  }
  return {out};
}

Tensors run(const Case& c) {
  const Tensor tensor = c.own();
  if (c.what == "all_reduce") {
    dist::all_reduce(tensor, {.op = c.op});
    return {tensor};
  }
  if (c.what == "reduce") {
    dist::reduce(tensor, c.root, {.op = c.op});
    return c.rank == c.root ? Tensors{tensor} : Tensors{};
  }
  if (c.what == "broadcast") {
    dist::broadcast(tensor, c.root);
    return {tensor};
  }
  if (c.what == "all_gather") {
    const Tensors outputs = c.rooms();
    dist::all_gather(outputs, tensor);
    return outputs;
  }
  if (c.what == "gather") {
    const Tensors outputs = c.rank == c.root ? c.rooms() : Tensors();
    dist::gather(tensor, outputs, c.root);
    return outputs;
  }
  if (c.what == "all_to_all_uneven") return all_to_all_uneven(c);
  if (c.what == "send_recv") return send_recv(c);
  return one_result(c);
}

/// One result as the data write it.
std::string written(const Tensor& tensor, Json wanted) {
  const core::ByteVector bytes = bytes_of(tensor);
  const bool is_text = wanted.is_string();
  if (is_text && text(wanted).starts_with("sha256:")) return "sha256:" + sha256(bytes);
  if (is_text) return hex_words(bytes, static_cast<int>(bytes.size() / static_cast<std::size_t>(tensor.numel())));
  std::string list = "[";
  for (const std::int64_t value : tensor.to_vector<std::int64_t>()) {
    list += (list.size() > 1 ? "," : "") + std::to_string(value);
  }
  return list + "]";
}

bool is_bitwise(dist::ReduceOp op) {
  return op == dist::ReduceOp::band || op == dist::ReduceOp::bor || op == dist::ReduceOp::bxor;
}

std::string compared(const Tensors& results, Json wanted) {
  const std::vector<Json> all = items(wanted);
  if (all.size() != results.size()) return "gave " + std::to_string(results.size()) + " tensors";
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string ours = written(results[i].cpu(), all[i]);
    const std::string theirs = all[i].is_string() ? text(all[i]) : simdjson::minify(all[i]);
    if (ours != theirs) return "result " + std::to_string(i) + " is " + ours + " where " + theirs;
  }
  return "";
}

// --- NCCL

/// Whether sums of floating point have another order than Gloo's.
bool has_other_order(const Case& c) {
  return default_backend() == "nccl" && c.what.find("reduce") != std::string::npos && core::is_floating(c.dtype) &&
         c.size > 2 && c.op != dist::ReduceOp::min && c.op != dist::ReduceOp::max && !is_bitwise(c.op);
}

std::vector<double> numbers_in(const std::string& words, core::DType dtype) {
  const core::ByteVector bytes = bytes_from_hex_words(words);
  const Tensor values =
      core::empty({static_cast<std::int64_t>(bytes.size()) * 8 / core::bit_width(dtype)}, {.dtype = dtype});
  std::memcpy(values.mutable_raw_data(), bytes.data(), bytes.size());
  return values.to(core::DType::f64).to_vector<double>();
}

/// Of a few roundings, beside values of about 1.
double rounding_of(core::DType dtype) {
  if (dtype == core::DType::bf16) return 0.02;
  if (dtype == core::DType::f16) return 0.004;
  return dtype == core::DType::f32 ? 2e-6 : 1e-14;
}

/// Within what another order of addends makes of them.
std::string compared_as_numbers(const Tensors& results, Json wanted, core::DType dtype) {
  const std::vector<Json> all = items(wanted);
  if (all.size() != results.size()) return "gave " + std::to_string(results.size()) + " tensors";
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string theirs = text(all[i]);
    if (theirs.starts_with("sha256:")) return "skip: the bits of Gloo's order of addends";
    const std::vector<double> numbers = results[i].cpu().to(core::DType::f64).to_vector<double>();
    const std::vector<double> expected = numbers_in(theirs, dtype);
    for (std::size_t at = 0; at < expected.size(); ++at) {
      const double allowed = rounding_of(dtype) * std::max(1.0, std::abs(expected[at]));
      if (std::abs(numbers[at] - expected[at]) > allowed) return "result " + std::to_string(i) + " differs";
    }
  }
  return "";
}

/// What NCCL does and PyTorch's Gloo does not: the mean of whole numbers.
bool is_wider(const Case& c) {
  return default_backend() == "nccl" && c.op == dist::ReduceOp::avg;
}
std::string error_of_nccl(const Case& c) {
  if (default_backend() != "nccl" || !is_bitwise(c.op)) return "";
  return "Cannot use ReduceOp." + std::string(dist::name(c.op)) + " with NCCL";
}

}  // namespace

core::Tensor golden_value(core::DType dtype, std::int64_t n, std::int64_t seed) {
  core::manual_seed(seed);
  if (core::is_floating(dtype)) return core::randn({n}, {.dtype = core::DType::f64}).to(dtype);
  if (dtype == core::DType::boolean) return core::randint(0, 2, {n}).to(dtype);
  if (dtype == core::DType::u8) return core::randint(0, 20, {n}).to(dtype);
  return core::randint(-9, 10, {n}).to(dtype);
}

std::string collective_difference(Json json) {
  const auto number_or = [&](const char* key, std::int64_t otherwise) {
    return has(json, key) ? integer(member(json, key)) : otherwise;
  };
  const Case c{text(member(json, "what")),
               dtype(member(json, "dtype")),
               integer(member(json, "n")),
               integer(member(json, "seed")),
               static_cast<int>(number_or("root", 0)),
               has(json, "op") ? op_named(text(member(json, "op"))) : dist::ReduceOp::sum};
  const Json wanted = items(member(json, "ranks"))[static_cast<std::size_t>(c.rank)];
  const bool fails = wanted.is_object();
  try {
    const Tensors results = run(c);
    if (!error_of_nccl(c).empty()) return "did not fail";
    if (has_other_order(c)) return compared_as_numbers(results, wanted, c.dtype);
    return fails && !is_wider(c) ? "did not fail" : fails ? "" : compared(results, wanted);
  } catch (const core::Error& error) {
    if (const std::string own = error_of_nccl(c); !own.empty()) {
      return own == error.what() ? "" : "said " + std::string(error.what()) + " where " + own;
    }
    if (!fails) return std::string("failed: ") + error.what();
    const std::vector<std::string> said = texts(member(wanted, "error"));
    const std::string ours = std::string(core::python_name(error.code())) + ": " + error.what();
    return ours == said[0] + ": " + said[1] ? "" : "said " + ours + " where " + said[0] + ": " + said[1];
  }
}

}  // namespace test
