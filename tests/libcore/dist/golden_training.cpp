#include <map>

#include "libcore/autograd/grad_mode.h"
#include "libcore/base/text.h"
#include "libcore/data/loader.h"
#include "libcore/dist/distributed_data_parallel.h"
#include "libcore/dist/init.h"
#include "libcore/module/activation.h"
#include "libcore/module/conv.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"
#include "libcore/module/recurrent.h"
#include "libcore/module/sequential.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/optim/clip.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "tests/libcore/dist/golden_parts.h"
#include "tests/libcore/dist/golden_zero.h"
#include "tests/libcore/dist/rank_gpus.h"
#include "tests/libcore/dist/two_branch.h"
#include "tests/libcore/module/module_spec.h"
#include "tests/libcore/optim/optim_spec.h"

namespace test {
namespace {

namespace dist = core::distributed;
using core::Tensor;

/// Which branch a step takes: "step % 2", "(step + rank) % 2", "-1".
class Expression {
 public:
  Expression(std::string text, std::map<std::string, std::int64_t> names)
      : text_(std::move(text)), names_(std::move(names)) {}
  std::int64_t value() { return sum(); }

 private:
  char next() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  std::int64_t sum() {
    std::int64_t result = product();
    for (char c = next(); c == '+' || c == '-'; c = next()) {
      ++at_;
      const std::int64_t other = product();
      result += c == '+' ? other : -other;
    }
    return result;
  }
  std::int64_t product() {
    std::int64_t result = atom();
    for (char c = next(); c == '*' || c == '%' || c == '/'; c = next()) {
      at_ += text_.substr(at_, 2) == "//" ? 2 : 1;
      const std::int64_t other = atom();
      const std::int64_t floor = c == '*' ? 0 : (result - ((result % other + other) % other)) / other;
      result = c == '*' ? result * other : c == '%' ? result - floor * other : floor;
    }
    return result;
  }
  std::int64_t atom() {
    const char c = next();
    if (c == '(') {
      ++at_;
      const std::int64_t inner = sum();
      next();
      ++at_;
      return inner;
    }
    if (c == '-') {
      ++at_;
      return -atom();
    }
    const std::size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_'))
      ++at_;
    const std::string word = text_.substr(begin, at_ - begin);
    if (word.empty()) throw std::runtime_error("skip: expression " + text_);
    return std::isdigit(static_cast<unsigned char>(word[0])) != 0 ? std::stoll(word) : names_.at(word);
  }
  std::string text_;
  std::map<std::string, std::int64_t> names_;
  std::size_t at_ = 0;
};

struct LastStep : core::ModuleOf<LastStep> {
  std::shared_ptr<core::LSTM> lstm;
  std::shared_ptr<core::GRU> gru;
  std::shared_ptr<core::RNN> rnn;
  std::shared_ptr<core::Linear> fc;
  LastStep(const std::string& kind, std::int64_t i, std::int64_t h, std::int64_t o) {
    if (kind == "LSTM") {
      lstm = std::make_shared<core::LSTM>(i, h, core::RecurrentOptions{.batch_first = true});
    } else if (kind == "GRU") {
      gru = std::make_shared<core::GRU>(i, h, core::RecurrentOptions{.batch_first = true});
    } else {
      rnn = std::make_shared<core::RNN>(i, h, core::RecurrentOptions{.batch_first = true});
    }
    fc = std::make_shared<core::Linear>(h, o);
  }
  void members(core::Members& m) override {
    if (lstm) m.child("rnn", lstm);
    if (gru) m.child("rnn", gru);
    if (rnn) m.child("rnn", rnn);
    m.child("fc", fc);
  }
  Tensor forward(const Tensor& x) {
    const Tensor y = lstm ? std::get<0>((*lstm)(x)) : gru ? std::get<0>((*gru)(x)) : std::get<0>((*rnn)(x));
    return (*fc)(y.select(1, -1));
  }
};

struct Residual : core::ModuleOf<Residual> {
  core::Conv2d conv;
  core::BatchNorm2d norm;
  core::Linear fc;
  Residual(std::int64_t c, std::int64_t o) : conv(c, c, 3, {.padding = 1, .bias = false}), norm(c), fc(c, o) {}
  void members(core::Members& m) override { m.child("conv", conv).child("norm", norm).child("fc", fc); }
  Tensor forward(const Tensor& x) { return fc(core::mean(core::relu(norm(conv(x)) + x), {.dims = {2, 3}})); }
};

std::shared_ptr<core::Module> build(Json spec) {
  const std::string type = text(member(spec, "type"));
  const std::vector<Json> args = has(spec, "args") ? items(member(spec, "args")) : std::vector<Json>();
  if (type == "TwoBranch") return std::make_shared<TwoBranch>(integer(args[0]), integer(args[1]), integer(args[2]));
  if (type == "LastStep") {
    return std::make_shared<LastStep>(text(args[0]), integer(args[1]), integer(args[2]), integer(args[3]));
  }
  if (type == "Residual") return std::make_shared<Residual>(integer(args[0]), integer(args[1]));
  BuiltModule built = build_module(spec);
  if (!built.module) throw std::runtime_error("skip: " + built.missing);
  return built.module;
}

dist::DistributedDataParallelOptions options_of(Json json) {
  dist::DistributedDataParallelOptions options;
  for (const auto [key, value] : json.get_object()) {
    if (key == "bucket_cap_mb") {
      options.bucket_cap_mb = number(value);
    } else if (key == "bucket_cap_mb_list") {
      options.bucket_cap_mb_list = numbers(value);
    } else if (key == "find_unused_parameters") {
      options.find_unused_parameters = boolean(value);
    } else if (key == "gradient_as_bucket_view") {
      options.gradient_as_bucket_view = boolean(value);
    } else if (key == "static_graph") {
      options.static_graph = boolean(value);
    } else if (key == "forward_sync_buffers" || key == "broadcast_buffers") {
      options.forward_sync_buffers = boolean(value);
    } else if (key == "init_sync") {
      options.init_sync = boolean(value);
    } else {
      throw std::runtime_error("skip: DDP option " + std::string(key));
    }
  }
  return options;
}

bool model_draws(const core::Module& module) {
  return module.str().find("Dropout") != std::string::npos;
}

using Model = dist::DistributedDataParallel<core::Module>;

/// One case, from its seed to what it has to be compared with.
class Run {
 public:
  Run(Json json, const GoldenArrays& arrays) : json_(json), arrays_(arrays) {
    x_ = array("x").to(dtype_);
    y_ = array("y");
    if (y_.is_floating_point()) y_ = y_.to(dtype_);
    x_ = x_.to(rank_device());
    y_ = y_.to(rank_device());
  }

  std::string difference() {
    core::manual_seed(seed_ + rank_);
    const std::shared_ptr<core::Module> inner = build(member(json_, "model"));
    if (dtype_ != core::DType::f32) inner->to(dtype_);
    inner->to(rank_device());
    if (!rank_device().is_cpu() && model_draws(*inner)) throw std::runtime_error("skip: a GPU draws other numbers");
    Model model(inner, options_of(member(json_, "ddp")));
    two_branch_ = dynamic_cast<TwoBranch*>(inner.get());
    compare_state("init", *inner, "init", 0);
    if (model.str() != text(member(json_, "repr"))) note("repr is " + model.str());
    std::vector<std::string> keys;
    for (const auto& [key, value] : model.state_dict()) keys.push_back(key);
    if (keys != texts(member(json_, "keys"))) note("other keys");
    optimizer_ = optimizer_for(*inner);
    core::manual_seed(seed_ + 100 + rank_);
    if (has(json_, "join")) {
      run_joined(model, *inner);
    } else {
      run_epochs(model, *inner);
    }
    compare_end(model, *inner);
    return why_;
  }

 private:
  Tensor array(const char* key) const { return to_tensor(arrays_.at(text(member(json_, key)))); }
  void note(const std::string& what) {
    if (why_.empty()) why_ = what;
  }

  GoldenOptimizer optimizer_for(core::Module& module) {
    const std::string name = text(member(json_, "optimizer"));
    if (has(json_, "zero")) return make_zero_optimizer(name, module.parameters(), member(json_, "options"));
    std::shared_ptr<core::Optimizer> made =
        make_optimizer(name, {{.params = module.parameters()}}, member(json_, "options"));
    if (!made) throw std::runtime_error("skip: optimizer " + name);
    return {[made] { made->step(); }, [made] { made->zero_grad(); }, nullptr};
  }

  void run_epochs(Model& model, core::Module& inner) {
    auto sampler = std::make_shared<core::DistributedSampler>(
        integer(member(json_, "n")),
        core::DistributedSamplerOptions{.shuffle = boolean(member(json_, "shuffle")),
                                        .seed = static_cast<std::uint64_t>(integer(member(json_, "sampler_seed"))),
                                        .drop_last = boolean(member(json_, "drop_last"))});
    core::DataLoader loader(core::TensorDataset(x_, y_),
                            {.batch_size = integer(member(json_, "batch_size")), .sampler = sampler});
    const std::int64_t every = has(json_, "accumulate") ? integer(member(json_, "accumulate")) : 1;
    for (std::int64_t epoch = 0; epoch < integer(member(json_, "epochs")); ++epoch) {
      sampler->set_epoch(epoch);
      std::int64_t batches = 0;
      for (auto& [input, target] : loader) {
        const bool steps = ++batches % every == 0;
        if (steps) {
          backward(model, input, target, every);
          step(inner);
        } else {
          const auto apart = model.no_sync();
          backward(model, input, target, every);
        }
      }
    }
  }

  void run_joined(Model& model, core::Module& inner) {
    const Json join = member(json_, "join");
    const std::int64_t batches = integers(member(join, "batches"))[static_cast<std::size_t>(rank_)];
    const std::int64_t size = integer(member(json_, "batch_size"));
    model.join(
        [&] {
          for (std::int64_t j = 0; j < batches; ++j) {
            const std::int64_t row = (j * dist::get_world_size() + rank_) * size;
            backward(model, x_.narrow(0, row, size), y_.narrow(0, row, size), 1);
            step(inner);
          }
        },
        {.divide_by_initial_world_size = boolean(member(join, "divide_by_initial_world_size"))});
  }

  void backward(Model& model, const Tensor& input, const Tensor& target, std::int64_t every) {
    if (two_branch_ != nullptr && has(json_, "which")) {
      two_branch_->which = Expression(text(member(json_, "which")),
                                      {{"step", steps_}, {"rank", rank_}, {"world_size", dist::get_world_size()}})
                               .value();
    }
    const Tensor output = model(input);
    const Tensor loss =
        target.is_floating_point() ? core::mse_loss(output, target) : core::cross_entropy(output, target);
    losses_.push_back(loss.item<double>());
    (every > 1 ? loss / every : loss).backward();
  }

  void step(core::Module& inner) {
    if (steps_++ == 0) compare_first_gradients(inner);
    if (has(json_, "clip")) {
      norms_.push_back(core::clip_grad_norm_(inner.parameters(), number(member(json_, "clip"))).item<double>());
    }
    optimizer_.step();
    optimizer_.zero_grad();
  }

  void compare_first_gradients(core::Module& inner) {
    std::vector<std::string> none;
    for (const auto& [name, param] : inner.named_parameters()) {
      if (!param.grad().defined()) {
        none.push_back(name);
      } else if (rank_ == 0 && has(member(json_, "first_grads"), name)) {
        compare("first gradient of " + name, param.grad(), text(member(member(json_, "first_grads"), name)));
      }
    }
    if (none != texts(items(member(json_, "first_grads_none"))[static_cast<std::size_t>(rank_)])) {
      note("other parameters have no gradient in the first step");
    }
  }

  void compare(const std::string& what, const Tensor& ours, const std::string& name) {
    const std::string why = test::difference(ours, arrays_.at(name));
    if (!why.empty()) note(what + ": " + why);
  }

  void compare_state(const std::string& what, core::Module& inner, const char* key, int of_rank) {
    if (rank_ != of_rank && std::string(key) != "init") return;
    const Json wanted = member(json_, key);
    const core::StateDict state = inner.state_dict();
    for (const auto [name, array_name] : wanted.get_object()) {
      compare(what + " " + std::string(name), state.at(std::string(name)), text(array_name));
    }
  }

  void compare_numbers(const std::string& what, const std::vector<double>& ours, const std::vector<double>& wanted) {
    if (ours.size() != wanted.size()) return note("another number of " + what);
    for (std::size_t i = 0; i < ours.size(); ++i) {
      if (is_close(ours[i], wanted[i], dtype_)) continue;
      return note(what + " " + std::to_string(i) + " is " + core::python_float(ours[i]) + " where " +
                  core::python_float(wanted[i]));
    }
  }

  void compare_end(Model& model, core::Module& inner) {
    compare_numbers("losses", losses_, numbers(items(member(json_, "losses"))[static_cast<std::size_t>(rank_)]));
    if (rank_ == 0) compare_numbers("norms", norms_, numbers(member(json_, "clip_norms")));
    const core::StateDict state = inner.state_dict();
    const std::vector<Json> others = items(member(json_, "state_of_other_ranks"));
    for (const auto [name, array_name] : member(json_, "state").get_object()) {
      std::string wanted = text(array_name);
      if (rank_ > 0 && has(others[static_cast<std::size_t>(rank_ - 1)], name)) {
        wanted = text(member(others[static_cast<std::size_t>(rank_ - 1)], name));
      }
      compare("state " + std::string(name), state.at(std::string(name)), wanted);
    }
    const std::string drawn = hex_words(bytes_of(core::rand({2})), 4);
    if (drawn != texts(member(json_, "rand_after"))[static_cast<std::size_t>(rank_)])
      note("the generator drew another count");
    if (rank_ == 0 && has(json_, "buckets")) compare_buckets(model);
    if (has(json_, "zero")) note(optimizer_.zero_difference(member(json_, "zero"), arrays_));
  }

  void compare_buckets(const Model& model);

  Json json_;
  const GoldenArrays& arrays_;
  int rank_ = dist::get_rank();
  std::int64_t seed_ = integer(member(json_, "seed"));
  core::DType dtype_ = dtype(member(json_, "dtype"));
  Tensor x_, y_;
  TwoBranch* two_branch_ = nullptr;
  GoldenOptimizer optimizer_;
  std::int64_t steps_ = 0;
  std::vector<double> losses_;
  std::vector<double> norms_;
  std::string why_;
};

std::string joined(const std::vector<std::int64_t>& numbers, const char* between) {
  std::string out;
  for (const std::int64_t number : numbers) out += (out.empty() ? "" : between) + std::to_string(number);
  return out;
}
std::string joined(const std::vector<std::vector<std::int64_t>>& lists) {
  std::string out;
  for (const auto& list : lists) out += (out.empty() ? "" : ", ") + joined(list, " ");
  return out;
}

/// "" or what differs; null stands for not rebuilt.
std::string text_difference(const char* what, const std::optional<std::string>& ours, Json wanted) {
  const std::optional<std::string> theirs = is_null(wanted) ? std::nullopt : std::optional(text(wanted));
  if (ours == theirs) return "";
  return std::string(what) + " is " + ours.value_or("null") + " where " + theirs.value_or("null");
}

std::string stats_difference(const dist::ReducerStats& stats, Json first, Json rebuilt, Json params, Json order) {
  std::optional<std::string> sizes;
  std::optional<std::string> indices;
  if (stats.rebuilt_bucket_sizes) {
    sizes = joined(*stats.rebuilt_bucket_sizes, ", ");
    indices = joined(stats.rebuilt_per_bucket_param_indices);
  }
  std::string why = text_difference("bucket sizes", joined(stats.bucket_sizes, ", "), first);
  if (why.empty()) why = text_difference("rebuilt bucket sizes", sizes, rebuilt);
  if (why.empty()) why = text_difference("rebuilt indices", indices, params);
  if (why.empty()) {
    why = text_difference("ready order", joined(stats.prev_iteration_grad_ready_order_indices, ", "), order);
  }
  return why;
}

void Run::compare_buckets(const Model& model) {
  const Json wanted = member(json_, "buckets");
  const dist::ReducerStats& stats = model.stats();
  note(stats_difference(stats, member(wanted, "bucket_sizes"), member(wanted, "rebuilt_bucket_sizes"),
                        member(wanted, "rebuilt_per_bucket_param_indices"),
                        member(wanted, "prev_iteration_grad_ready_order_indices")));
  const std::pair<const char*, std::int64_t> rows[] = {
      {"bucket_cap_bytes", model.bucket_bytes_cap()},
      {"num_buckets_reduced", stats.num_buckets_reduced},
      {"unused_parameter_size", stats.unused_parameter_size},
      {"has_rebuilt_buckets", stats.has_rebuilt_buckets ? 1 : 0},
  };
  for (const auto& [key, ours] : rows) {
    if (ours != integer(member(wanted, key))) note(std::string(key) + " is " + std::to_string(ours));
  }
}

}  // namespace

std::string training_difference(Json json, const GoldenArrays& arrays) {
  return Run(json, arrays).difference();
}

std::string ddp_buckets_difference(Json json) {
  const std::vector<std::int64_t> widths = integers(member(json, "widths"));
  auto chain = std::make_shared<core::Sequential>();
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    if (i > 0) chain->push_back(core::ReLU());
    chain->push_back(core::Linear(widths[i], widths[i + 1]));
  }
  chain->to(rank_device());
  dist::DistributedDataParallel<core::Sequential> model(chain, options_of(member(json, "options")));
  for (int i = 0; i < 3; ++i) {
    model.zero_grad();
    core::sum(model(core::randn({2, widths[0]}).to(rank_device()))).backward();
  }
  std::string why = stats_difference(model.stats(), member(json, "first_iteration"), member(json, "rebuilt"),
                                     member(json, "rebuilt_parameters"), member(json, "ready_order"));
  const std::int64_t cap = integer(member(json, "bucket_cap_bytes"));
  if (why.empty() && model.bucket_bytes_cap() != cap) why = "cap is " + std::to_string(model.bucket_bytes_cap());
  return why;
}

std::string buckets_difference(Json json) {
  std::vector<dist::BucketItem> all;
  const std::vector<Json> dtypes = items(member(json, "dtypes"));
  const std::vector<std::int64_t> sizes = integers(member(json, "sizes"));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const core::DType type = dtype(dtypes[i]);
    all.push_back({sizes[i] * core::bit_width(type) / 8, type, core::Device()});
  }
  const dist::BucketAssignment ours =
      dist::assign_buckets(all, integers(member(json, "limits")), integers(member(json, "tensor_indices")));
  std::vector<std::vector<std::int64_t>> wanted;
  for (const Json bucket : items(member(json, "buckets"))) wanted.push_back(integers(bucket));
  if (ours.buckets != wanted) return "buckets are " + joined(ours.buckets);
  if (ours.limits != integers(member(json, "bucket_limits"))) return "limits are " + joined(ours.limits, ", ");
  return "";
}

std::string sampler_difference(Json json) {
  core::DistributedSamplerOptions options{.num_replicas = integer(member(json, "num_replicas")),
                                          .shuffle = boolean(member(json, "shuffle")),
                                          .seed = static_cast<std::uint64_t>(integer(member(json, "seed"))),
                                          .drop_last = boolean(member(json, "drop_last"))};
  for (std::int64_t rank = 0; rank < *options.num_replicas; ++rank) {
    options.rank = rank;
    core::DistributedSampler sampler(integer(member(json, "n")), options);
    if (sampler.size() != integer(member(json, "length"))) return "length is " + std::to_string(sampler.size());
    if (sampler.total_size() != integer(member(json, "total_size"))) return "total_size differs";
    std::int64_t epoch = 0;
    for (const Json each : items(member(json, "epochs"))) {
      sampler.set_epoch(epoch++);
      const std::vector<std::int64_t> ours = sampler.epoch();
      if (ours != integers(items(each)[static_cast<std::size_t>(rank)])) return "indices are " + joined(ours, " ");
    }
  }
  return "";
}

}  // namespace test
