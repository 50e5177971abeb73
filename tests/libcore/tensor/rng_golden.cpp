// Golden data set golden_runtime_rng: programs of random calls, generator states, loader and sampler orders, bit for
// bit.
#include <functional>
#include <map>
#include <memory>

#include "libcore/data/loader.h"
#include "libcore/ops/dropout.h"
#include "libcore/ops/join.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"
#include "tests/support/golden_json.h"

namespace {

using core::DType;
using core::Shape;
using core::Tensor;
using test::Json;

/// One call of a program; arguments by name.
class Step {
 public:
  explicit Step(Json json) : json_(json) {}
  std::string op() const { return test::text(test::member(json_, "op")); }
  double num(const char* name) const { return test::number(test::member(json_, name)); }
  std::int64_t whole(const char* name) const { return test::integer(test::member(json_, name)); }
  bool flag(const char* name) const { return test::boolean(test::member(json_, name)); }
  Shape size() const { return test::shape(test::member(json_, "size")); }
  DType dtype() const { return test::dtype(test::member(json_, "dtype")); }
  Json at(const char* name) const { return test::member(json_, name); }
  bool has(const char* name) const { return test::has(json_, name); }
  Tensor empty() const { return core::empty(size(), {.dtype = dtype()}); }
  Tensor ones() const { return core::ones(size(), {.dtype = dtype()}); }

 private:
  Json json_;
};

Tensor weights_of(const Step& s) {
  Json weights = s.at("weights");
  bool is_matrix = simdjson::dom::array(weights).at(0).is_array();
  if (!is_matrix) return core::from_values(test::numbers(weights)).to(s.dtype());
  std::vector<Tensor> rows;
  for (Json row : simdjson::dom::array(weights)) rows.push_back(core::from_values(test::numbers(row)).to(s.dtype()));
  return core::stack(rows);
}

Tensor normal_from_tensors(const Step& s) {
  std::int64_t n = s.size()[0];
  Tensor mean = core::arange(n, {.dtype = s.dtype()});
  Tensor std = core::arange(1, n + 1, {.dtype = s.dtype()}) / n;
  return core::normal(mean, std);
}

Tensor noncontiguous_normal(const Step& s) {
  Shape size = s.size();
  return core::normal_(core::empty({size[1], size[0]}, {.dtype = s.dtype()}).t(), s.num("mean"), s.num("std"));
}

using Call = std::function<Tensor(const Step&)>;

const std::map<std::string, Call>& calls() {
  static const std::map<std::string, Call> kCalls = {
      {"rand", [](const Step& s) { return core::rand(s.size(), {.dtype = s.dtype()}); }},
      {"randn", [](const Step& s) { return core::randn(s.size(), {.dtype = s.dtype()}); }},
      {"randint",
       [](const Step& s) { return core::randint(s.whole("low"), s.whole("high"), s.size(), {.dtype = s.dtype()}); }},
      {"randperm", [](const Step& s) { return core::randperm(s.whole("n")); }},
      {"normal_", [](const Step& s) { return core::normal_(s.empty(), s.num("mean"), s.num("std")); }},
      {"normal_noncontiguous", noncontiguous_normal},
      {"uniform_", [](const Step& s) { return core::uniform_(s.empty(), s.num("from"), s.num("to")); }},
      {"bernoulli_", [](const Step& s) { return core::bernoulli_(s.empty(), s.num("p")); }},
      {"bernoulli_tensor",
       [](const Step& s) { return core::bernoulli(core::arange(s.size()[0], {.dtype = s.dtype()}) / s.size()[0]); }},
      {"dropout", [](const Step& s) { return core::dropout(s.ones(), s.num("p")); }},
      {"dropout2d", [](const Step& s) { return core::feature_dropout(s.ones(), s.num("p")); }},
      {"exponential_", [](const Step& s) { return core::exponential_(s.empty(), s.num("lambd")); }},
      {"geometric_", [](const Step& s) { return core::geometric_(s.empty(), s.num("p")); }},
      {"log_normal_", [](const Step& s) { return core::log_normal_(s.empty(), s.num("mean"), s.num("std")); }},
      {"cauchy_", [](const Step& s) { return core::cauchy_(s.empty(), s.num("median"), s.num("sigma")); }},
      {"random_", [](const Step& s) { return core::random_(s.empty()); }},
      {"random_range", [](const Step& s) { return core::random_(s.empty(), s.whole("from"), s.whole("to")); }},
      {"multinomial",
       [](const Step& s) {
         return core::multinomial(weights_of(s),
                                  {.num_samples = s.whole("num_samples"), .replacement = s.flag("replacement")});
       }},
      {"normal_tensors", normal_from_tensors},
      {"trunc_normal_",
       [](const Step& s) { return core::trunc_normal_(s.empty(), {.low = s.num("a"), .high = s.num("b")}); }},
  };
  return kCalls;
}

std::string hex_of(const Tensor& tensor) {
  Tensor dense = tensor.contiguous();
  auto bytes = static_cast<std::size_t>(dense.numel() * core::bit_width(dense.dtype()) / 8);
  return test::hex_words({static_cast<const std::byte*>(dense.raw_data()), bytes}, core::bit_width(dense.dtype()) / 8);
}

std::string sha_of(const Tensor& tensor) {
  Tensor dense = tensor.contiguous();
  auto bytes = static_cast<std::size_t>(dense.numel() * core::bit_width(dense.dtype()) / 8);
  return test::sha256({static_cast<const std::byte*>(dense.raw_data()), bytes});
}

void flatten(Json json, std::vector<std::int64_t>& into) {
  if (json.is_array()) {
    for (Json item : simdjson::dom::array(json)) flatten(item, into);
  } else {
    into.push_back(json.is_bool() ? test::boolean(json) : test::integer(json));
  }
}

/// Empty when the result is what the step says.
std::string compare(const Step& step, const Tensor& result) {
  if (step.has("sha256")) {
    return sha_of(result) == test::text(step.at("sha256")) ? "" : step.op() + ": digest differs";
  }
  if (step.has("bits")) {
    std::string wanted = test::text(step.at("bits"));
    return hex_of(result) == wanted ? "" : step.op() + " gives " + hex_of(result) + " where " + wanted;
  }
  std::vector<std::int64_t> wanted;
  flatten(step.at("values"), wanted);
  return result.to_vector<std::int64_t>() == wanted ? "" : step.op() + ": values differ";
}

std::string state_digest() {
  return test::sha256(core::default_generator().state());
}

void run_program(Json program, test::GoldenRun& run) {
  std::string id = test::text(test::member(program, "id"));
  core::manual_seed(test::integer(test::member(program, "seed")));
  for (Json json : simdjson::dom::array(test::member(program, "steps"))) {
    Step step(json);
    auto call = calls().find(step.op());
    if (call == calls().end()) return run.skip(id, step.op());
    std::string why = compare(step, call->second(step));
    if (!why.empty()) return run.fail(id, why);
  }
  run.check(id, state_digest() == test::text(test::member(test::member(program, "state_after"), "sha256")),
            "generator state differs");
}

struct Numbers {
  std::int64_t count;
  std::int64_t size() const { return count; }
  std::int64_t get(std::int64_t i) const { return i; }
};

std::optional<core::Generator> generator_of(Json json) {
  Json seed = test::member(json, "generator_seed");
  if (test::is_null(seed)) return std::nullopt;
  core::Generator generator;
  return generator.manual_seed(test::integer(seed));
}

void run_data_loader(const std::string& id, Json json, test::GoldenRun& run) {
  Step c(json);
  core::DataLoader loader(Numbers{c.whole("n")}, {.batch_size = c.whole("batch_size"),
                                                  .shuffle = c.flag("shuffle"),
                                                  .drop_last = c.flag("drop_last"),
                                                  .generator = generator_of(json)});
  bool ok = loader.size() == c.whole("length");
  for (Json epoch : simdjson::dom::array(c.at("epochs"))) {
    auto wanted = simdjson::dom::array(epoch).begin();
    for (const Tensor& batch : loader) ok = ok && batch.to_vector<std::int64_t>() == test::integers(*wanted), ++wanted;
    ok = ok && !(wanted != simdjson::dom::array(epoch).end());
  }
  run.check(id, ok && hex_of(core::rand({2})) == test::text(c.at("rand_after")), "order differs");
}

void run_split(const std::string& id, Json json, test::GoldenRun& run) {
  Step c(json);
  auto parts = core::split_indices(c.whole("n"), test::numbers(c.at("lengths")), generator_of(json));
  std::vector<std::vector<std::int64_t>> wanted;
  for (Json part : simdjson::dom::array(c.at("parts"))) wanted.push_back(test::integers(part));
  run.check(id, parts == wanted, "parts differ");
}

void run_distributed(const std::string& id, Json json, test::GoldenRun& run) {
  Step c(json);
  std::int64_t rank = 0;
  bool ok = true;
  for (Json wanted : simdjson::dom::array(c.at("ranks"))) {
    core::DistributedSampler sampler(c.whole("n"), {.num_replicas = c.whole("num_replicas"),
                                                    .rank = rank++,
                                                    .shuffle = c.flag("shuffle"),
                                                    .seed = static_cast<std::uint64_t>(c.whole("seed")),
                                                    .drop_last = c.flag("drop_last")});
    sampler.set_epoch(c.whole("epoch"));
    ok = ok && sampler.epoch() == test::integers(wanted) && sampler.size() == c.whole("num_samples") &&
         sampler.total_size() == c.whole("total_size");
  }
  run.check(id, ok, "indices differ");
}

void run_sampler(const std::string& id, const std::string& kind, Json json, test::GoldenRun& run) {
  Step c(json);
  std::unique_ptr<core::Sampler> sampler;
  if (kind == "RandomSampler") {
    sampler = std::make_unique<core::RandomSampler>(
        c.whole("n"),
        core::RandomSamplerOptions{.replacement = c.flag("replacement"), .num_samples = c.whole("num_samples")});
  } else {
    sampler = std::make_unique<core::WeightedRandomSampler>(
        test::numbers(c.at("weights")), c.whole("num_samples"),
        core::WeightedSamplerOptions{.replacement = c.flag("replacement")});
  }
  run.check(id, sampler->epoch() == test::integers(c.at("indices")), "indices differ");
}

void run_loader(Json json, test::GoldenRun& run) {
  std::string id = test::text(test::member(json, "id"));
  std::string kind = test::text(test::member(json, "kind"));
  core::manual_seed(test::integer(test::member(json, "seed")));
  if (kind == "DataLoader") return run_data_loader(id, json, run);
  if (kind == "random_split") return run_split(id, json, run);
  if (kind == "DistributedSampler") return run_distributed(id, json, run);
  if (kind == "RandomSampler" || kind == "WeightedRandomSampler") return run_sampler(id, kind, json, run);
  run.skip(id, kind);
}

/// The states of one seed follow one another; each names what was called before it.
void run_state(Json json, test::GoldenRun& run) {
  std::string id = test::text(test::member(json, "id"));
  auto seed = test::integer(test::member(json, "seed"));
  std::string after = test::has(json, "after") ? test::text(test::member(json, "after")) : "";
  if (after.empty()) core::manual_seed(seed);
  std::string bits;
  if (after == "rand(3)") core::rand({3});
  if (after == "rand(3); randn(1)") core::randn({1});
  if (test::has(json, "bits")) {
    core::Generator generator = core::default_generator();
    core::ByteVector saved = generator.state();
    bits = hex_of(core::randn({5}));
    core::rand({700});
    generator.set_state(saved);
    if (hex_of(core::randn({5})) != bits) return run.fail(id, "a restored state draws other numbers");
    if (bits != test::text(test::member(json, "bits"))) return run.fail(id, "numbers differ");
  }
  if (after == "... ; rand(624)") core::rand({624});
  if (test::has(json, "low16")) {
    core::manual_seed(seed);
    std::vector<std::int64_t> drawn;
    for (int i = 0; i < 8; ++i) drawn.push_back(core::randint(65536, {1}).item<std::int64_t>());
    return run.check(id, drawn == test::integers(test::member(json, "low16")), "numbers differ");
  }
  run.check(id, state_digest() == test::text(test::member(test::member(json, "state"), "sha256")), "state differs");
}

void run_all(Json list, test::GoldenRun& run, void (*one)(Json, test::GoldenRun&)) {
  for (Json json : simdjson::dom::array(list)) {
    test::guarded(run, test::text(test::member(json, "id")), [&] { one(json, run); });
  }
}

}  // namespace

int main() {
  return test::golden_main("rng", "runtime/rng.json", [](Json root, test::GoldenRun& run) {
    run_all(test::member(root, "programs"), run, run_program);
    run_all(test::member(root, "loaders"), run, run_loader);
    run_all(test::member(root, "states"), run, run_state);
  });
}
