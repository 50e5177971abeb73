#include "tests/libcore/optim/optim_spec.h"

#include <algorithm>
#include <cmath>
#include <regex>

#include "libcore/base/text.h"
#include "libcore/optim/adam.h"
#include "libcore/optim/adaptive.h"
#include "libcore/optim/averaging.h"
#include "libcore/optim/schedule_cycle.h"
#include "libcore/optim/schedule_group.h"
#include "libcore/optim/sgd.h"

namespace test {
namespace {

core::Scalar option(Json options, const char* name, core::Scalar otherwise) {
  return has(options, name) ? scalar(member(options, name)) : otherwise;
}
bool flag(Json options, const char* name) {
  return has(options, name) && boolean(member(options, name));
}

std::pair<core::Scalar, core::Scalar> betas(Json options) {
  if (!has(options, "betas")) return {0.9, 0.999};
  std::vector<double> values = numbers(member(options, "betas"));
  return {values[0], values[1]};
}

/// "0.8" of "gamma=0.8" in a constructor call.
double argument(const std::string& call, const std::string& name, double otherwise) {
  std::size_t at = call.find(name + "=");
  return at == std::string::npos ? otherwise : std::stod(call.substr(at + name.size() + 1));
}

std::vector<std::int64_t> milestones_of(const std::string& call) {
  std::size_t begin = call.find('[') + 1;
  std::vector<std::int64_t> result;
  const std::string inside = call.substr(begin, call.find(']') - begin);
  for (auto part : core::split(inside, ',')) result.push_back(std::stoll(std::string(part)));
  return result;
}

std::string json_text(const core::OptionValue& value) {
  if (const auto* tuple = std::get_if<std::vector<core::Scalar>>(&value)) {
    std::vector<std::string> parts;
    for (const auto& item : *tuple) parts.push_back(json_text(item));
    return "[" + core::join(parts, ",") + "]";
  }
  std::string text = core::to_string(value);
  if (text == "None") return "null";
  if (text == "True") return "true";
  return text == "False" ? "false" : text;
}

std::string tensor_text(const core::Tensor& tensor) {
  core::Tensor dense = tensor.detach().cpu().contiguous();
  int width = core::bit_width(dense.dtype()) / 8;
  core::Bytes bytes(static_cast<const std::byte*>(dense.raw_data()), static_cast<std::size_t>(dense.numel() * width));
  std::string sizes = core::to_list(dense.sizes());
  sizes.erase(std::remove(sizes.begin(), sizes.end(), ' '), sizes.end());
  return R"({"tensor":")" + std::string(core::short_name(dense.dtype())) + R"(","shape":)" + sizes + R"(,"bits":")" +
         hex_words(bytes, width) + "\"}";
}

}  // namespace

namespace {

std::unique_ptr<core::Optimizer> make_rare_optimizer(const std::string& name, std::vector<core::ParamGroup> groups,
                                                     Json o) {
  const core::Scalar lr = option(o, "lr", name == "Adamax" || name == "NAdam" ? 2e-3 : name == "RAdam" ? 1e-3 : 1e-2);
  if (name == "Adamax") return std::make_unique<core::Adamax>(std::move(groups), core::AdamaxOptions{.lr = lr});
  if (name == "NAdam") return std::make_unique<core::NAdam>(std::move(groups), core::NAdamOptions{.lr = lr});
  if (name == "RAdam") return std::make_unique<core::RAdam>(std::move(groups), core::RAdamOptions{.lr = lr});
  if (name == "ASGD") return std::make_unique<core::ASGD>(std::move(groups), core::ASGDOptions{.lr = lr});
  if (name == "Rprop") return std::make_unique<core::Rprop>(std::move(groups), core::RpropOptions{.lr = lr});
  return nullptr;
}

core::OneCycleLR::Options one_cycle_options(const std::string& call) {
  core::OneCycleLR::Options o;
  o.max_lr = argument(call, "max_lr", 1);
  const double total = argument(call, "total_steps", 0);
  if (total > 0) {
    o.total_steps = static_cast<std::int64_t>(total);
  } else {
    o.epochs = static_cast<std::int64_t>(argument(call, "epochs", 1));
    o.steps_per_epoch = static_cast<std::int64_t>(argument(call, "steps_per_epoch", 1));
  }
  o.pct_start = argument(call, "pct_start", 0.3);
  if (call.find("anneal_strategy='linear'") != std::string::npos) o.anneal_strategy = "linear";
  o.div_factor = argument(call, "(div_factor", argument(call, " div_factor", 25));
  o.final_div_factor = argument(call, "final_div_factor", 1e4);
  o.three_phase = call.find("three_phase=True") != std::string::npos;
  return o;
}

/// Schedules made of others, as the two cases of each have them.
std::unique_ptr<core::LRScheduler> make_joined_schedule(core::Optimizer& optimizer, const std::string& name,
                                                        const std::string& call) {
  std::vector<std::shared_ptr<core::LRScheduler>> parts;
  if (call.find("LinearLR(0.1, 1.0, 5), CosineAnnealingLR(15)") != std::string::npos) {
    parts.push_back(std::make_shared<core::LinearLR>(optimizer, core::LinearLR::Options{0.1, 1.0, 5}));
    parts.push_back(std::make_shared<core::CosineAnnealingLR>(optimizer, core::CosineAnnealingLR::Options{15}));
  } else {
    const std::int64_t count = call.find("ConstantLR(0.1, 2)") != std::string::npos ? 2 : 4;
    parts.push_back(std::make_shared<core::ConstantLR>(optimizer, core::ConstantLR::Options{0.1, count}));
    parts.push_back(std::make_shared<core::ExponentialLR>(optimizer, 0.9));
  }
  if (name == "ChainedScheduler") return std::make_unique<core::ChainedScheduler>(optimizer, parts);
  return std::make_unique<core::SequentialLR>(optimizer, parts, milestones_of(call.substr(call.find("milestones="))));
}

std::unique_ptr<core::LRScheduler> make_rare_schedule(core::Optimizer& optimizer, const std::string& name,
                                                      const std::string& call, Json json) {
  const auto whole = [&](const char* key, double otherwise) {
    return static_cast<std::int64_t>(argument(call, key, otherwise));
  };
  if (name == "SequentialLR" || name == "ChainedScheduler") return make_joined_schedule(optimizer, name, call);
  if (name == "OneCycleLR") return std::make_unique<core::OneCycleLR>(optimizer, one_cycle_options(call));
  if (name == "CosineAnnealingWarmRestarts") {
    return std::make_unique<core::CosineAnnealingWarmRestarts>(
        optimizer, core::CosineAnnealingWarmRestarts::Options{whole("T_0", 1), whole("T_mult", 1)});
  }
  if (name == "CyclicLR") {
    core::CyclicLR::Options o;
    o.base_lr = argument(call, "base_lr", 0);
    o.max_lr = argument(call, "max_lr", 1);
    o.step_size_up = whole("step_size_up", 2000);
    return std::make_unique<core::CyclicLR>(optimizer, o);
  }
  if (name == "MultiplicativeLR") {
    return std::make_unique<core::MultiplicativeLR>(optimizer,
                                                    [table = numbers(member(json, "table"))](std::int64_t epoch) {
                                                      return table.at(static_cast<std::size_t>(epoch)) + 0.5;
                                                    });
  }
  return nullptr;
}

}  // namespace

core::Scalar scalar(Json value) {
  if (value.is_bool()) return boolean(value);
  if (value.is_int64() || value.is_uint64()) return integer(value);
  return number(value);
}

core::OptionMap option_map(Json object) {
  core::OptionMap options;
  for (auto [name, value] : simdjson::dom::object(object)) options.set(name, scalar(value));
  return options;
}

std::unique_ptr<core::Optimizer> make_optimizer(const std::string& name, std::vector<core::ParamGroup> groups, Json o) {
  bool maximize = flag(o, "maximize");
  if (name == "SGD") {
    return std::make_unique<core::SGD>(std::move(groups), core::SGDOptions{.lr = option(o, "lr", 1e-3),
                                                                           .momentum = option(o, "momentum", 0),
                                                                           .dampening = option(o, "dampening", 0),
                                                                           .weight_decay = option(o, "weight_decay", 0),
                                                                           .nesterov = flag(o, "nesterov"),
                                                                           .maximize = maximize});
  }
  if (name == "Adam") {
    return std::make_unique<core::Adam>(std::move(groups),
                                        core::AdamOptions{.lr = option(o, "lr", 1e-3),
                                                          .betas = betas(o),
                                                          .eps = option(o, "eps", 1e-8),
                                                          .weight_decay = option(o, "weight_decay", 0),
                                                          .amsgrad = flag(o, "amsgrad"),
                                                          .maximize = maximize});
  }
  if (name == "AdamW") {
    return std::make_unique<core::AdamW>(std::move(groups),
                                         core::AdamWOptions{.lr = option(o, "lr", 1e-3),
                                                            .betas = betas(o),
                                                            .eps = option(o, "eps", 1e-8),
                                                            .weight_decay = option(o, "weight_decay", 1e-2),
                                                            .amsgrad = flag(o, "amsgrad"),
                                                            .maximize = maximize});
  }
  if (name == "RMSprop") {
    return std::make_unique<core::RMSprop>(std::move(groups),
                                           core::RMSpropOptions{.lr = option(o, "lr", 1e-2),
                                                                .alpha = option(o, "alpha", 0.99),
                                                                .eps = option(o, "eps", 1e-8),
                                                                .weight_decay = option(o, "weight_decay", 0),
                                                                .momentum = option(o, "momentum", 0),
                                                                .centered = flag(o, "centered"),
                                                                .maximize = maximize});
  }
  if (name == "Adagrad") {
    return std::make_unique<core::Adagrad>(
        std::move(groups), core::AdagradOptions{.lr = option(o, "lr", 1e-2),
                                                .lr_decay = option(o, "lr_decay", 0),
                                                .weight_decay = option(o, "weight_decay", 0),
                                                .initial_accumulator_value = option(o, "initial_accumulator_value", 0),
                                                .eps = option(o, "eps", 1e-10),
                                                .maximize = maximize});
  }
  if (name == "Adadelta") {
    return std::make_unique<core::Adadelta>(std::move(groups),
                                            core::AdadeltaOptions{.lr = option(o, "lr", 1.0),
                                                                  .rho = option(o, "rho", 0.9),
                                                                  .eps = option(o, "eps", 1e-6),
                                                                  .weight_decay = option(o, "weight_decay", 0),
                                                                  .maximize = maximize});
  }
  return make_rare_optimizer(name, std::move(groups), o);
}

std::unique_ptr<core::LRScheduler> make_schedule(core::Optimizer& optimizer, Json json) {
  std::string name = text(member(json, "scheduler"));
  std::string call = text(member(json, "what"));
  auto whole = [&](const char* key, double otherwise) {
    return static_cast<std::int64_t>(argument(call, key, otherwise));
  };
  double gamma = argument(call, "gamma", 0.1);
  if (name == "StepLR")
    return std::make_unique<core::StepLR>(optimizer, core::StepLR::Options{whole("step_size", 1), gamma});
  if (name == "MultiStepLR") {
    return std::make_unique<core::MultiStepLR>(optimizer, core::MultiStepLR::Options{milestones_of(call), gamma});
  }
  if (name == "ExponentialLR") return std::make_unique<core::ExponentialLR>(optimizer, gamma);
  if (name == "ConstantLR") {
    return std::make_unique<core::ConstantLR>(
        optimizer, core::ConstantLR::Options{argument(call, "factor", 1.0 / 3), whole("total_iters", 5)});
  }
  if (name == "LinearLR") {
    return std::make_unique<core::LinearLR>(
        optimizer, core::LinearLR::Options{argument(call, "start_factor", 1.0 / 3), argument(call, "end_factor", 1.0),
                                           whole("total_iters", 5)});
  }
  if (name == "PolynomialLR") {
    return std::make_unique<core::PolynomialLR>(
        optimizer, core::PolynomialLR::Options{whole("total_iters", 5), argument(call, "power", 1.0)});
  }
  if (name == "CosineAnnealingLR") {
    return std::make_unique<core::CosineAnnealingLR>(
        optimizer, core::CosineAnnealingLR::Options{whole("T_max", 1), argument(call, "eta_min", 0)});
  }
  if (name == "LambdaLR" && has(json, "table")) {
    return std::make_unique<core::LambdaLR>(optimizer, [table = numbers(member(json, "table"))](std::int64_t epoch) {
      return table.at(static_cast<std::size_t>(epoch));
    });
  }
  if (name == "LambdaLR") {
    return std::make_unique<core::LambdaLR>(
        optimizer, [](std::int64_t epoch) { return std::min(1.0, static_cast<double>(epoch + 1) / 5); });
  }
  return make_rare_schedule(optimizer, name, call, json);
}

std::string state_text(const core::OptimizerState& state) {
  std::vector<std::string> params;
  for (const auto& [id, values] : state.state) {
    std::vector<std::string> items;
    for (const auto& [name, tensor] : values) items.push_back("\"" + name + "\":" + tensor_text(tensor));
    params.push_back("\"" + std::to_string(id) + "\":{" + core::join(items, ",") + "}");
  }
  std::vector<std::string> groups;
  for (const auto& group : state.param_groups) {
    std::vector<std::string> items;
    for (const auto& [name, value] : group.options.items()) items.push_back("\"" + name + "\":" + json_text(value));
    std::vector<std::string> ids;
    for (std::int64_t id : group.params) ids.push_back(std::to_string(id));
    groups.push_back("{" + core::join(items, ",") + ",\"params\":[" + core::join(ids, ",") + "]}");
  }
  return "{\"state\":{" + core::join(params, ",") + "},\"param_groups\":[" + core::join(groups, ",") + "]}";
}

std::string compact(Json json) {
  return simdjson::minify(json);
}

double state_distance(const std::string& ours, const std::string& theirs) {
  static const std::regex kBits("\"bits\":\"([0-9a-f ]*)\"");
  if (std::regex_replace(ours, kBits, "") != std::regex_replace(theirs, kBits, "")) return INFINITY;
  double distance = 0;
  auto theirs_at = std::sregex_iterator(theirs.begin(), theirs.end(), kBits);
  for (auto at = std::sregex_iterator(ours.begin(), ours.end(), kBits); at != std::sregex_iterator();
       ++at, ++theirs_at) {
    std::string mine = (*at)[1];
    std::string wanted = (*theirs_at)[1];
    bool is_double = mine.find(' ') == 16 || (mine.size() == 16 && mine.find(' ') == std::string::npos);
    core::ByteVector a = bytes_from_hex_words(mine);
    core::ByteVector b = bytes_from_hex_words(wanted);
    if (a.size() != b.size()) return INFINITY;
    for (std::size_t i = 0; i < a.size(); i += is_double ? 8 : 4) {
      double x = is_double ? core::load_le<double>(&a[i]) : core::load_le<float>(&a[i]);
      double y = is_double ? core::load_le<double>(&b[i]) : core::load_le<float>(&b[i]);
      distance = std::max(distance, std::abs(x - y) / (1e-3 + std::abs(y)));
    }
  }
  return distance;
}

}  // namespace test
