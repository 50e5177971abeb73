#include "tests/libcore/module/module_spec.h"

#include <cmath>
#include <map>
#include <stdexcept>

#include "libcore/autograd/grad_mode.h"
#include "libcore/ops/sparse.h"
#include "libcore/optim/options.h"
#include "libcore/tensor/memory_format.h"
#include "libcore/tensor/print.h"
#include "tests/libcore/module/module_makers.h"

namespace test {
namespace {

using core::AnyModule;

const Makers& makers() {
  static const Makers table = [] {
    Makers all;
    add_activation_makers(all);
    add_attention_makers(all);
    add_conv_makers(all);
    add_layer_makers(all);
    add_loss_makers(all);
    add_pool_makers(all);
    add_recurrent_makers(all);
    return all;
  }();
  return table;
}

class Builder {
 public:
  std::shared_ptr<core::Module> build(Json spec, const std::string& path);

 private:
  std::shared_ptr<core::Module> build_leaf(Json spec);
  std::shared_ptr<core::Module> build_container(Json spec, const std::string& path);
  std::vector<std::pair<std::string, std::shared_ptr<core::Module>>> children(Json spec, const std::string& path);

  std::map<std::string, std::shared_ptr<core::Module>> built_;
};

std::shared_ptr<core::Module> Builder::build_leaf(Json spec) {
  const std::string type = text(member(spec, "type"));
  const auto found = makers().find(type);
  if (found == makers().end()) throw Missing{type};
  Arguments arguments(spec);
  AnyModule made = found->second(arguments);
  arguments.finish();
  return made.get();
}

std::vector<std::pair<std::string, std::shared_ptr<core::Module>>> Builder::children(Json spec,
                                                                                     const std::string& path) {
  std::vector<std::pair<std::string, std::shared_ptr<core::Module>>> result;
  for (const Json child : member(spec, "children").get_array()) {
    const std::string name = text(child.at(0));
    result.emplace_back(name, build(child.at(1), path.empty() ? name : path + "." + name));
  }
  return result;
}

/// The items of a list that may be absent.
std::vector<Json> list_of(Json spec, std::string_view key) {
  std::vector<Json> items;
  if (!has(spec, key)) return items;
  for (const Json item : member(spec, key).get_array()) items.push_back(item);
  return items;
}

std::shared_ptr<core::Module> user_class(Json spec) {
  auto made = std::make_shared<SpecModule>();
  made->class_text = text(member(spec, has(spec, "class") ? "class" : "type"));
  made->chained = has(spec, "forward") || made->class_text == "DataParallel";
  if (has(spec, "extra_repr")) made->extra = text(member(spec, "extra_repr"));
  const auto zeros = [](Json sizes) { return is_null(sizes) ? core::Tensor() : core::zeros(shape(sizes)); };
  for (const Json item : list_of(spec, "parameters")) {
    const core::Tensor value = zeros(item.at(1));
    made->parameter_list.emplace_back(text(item.at(0)), value.defined() ? core::Parameter(value) : core::Parameter());
  }
  for (const Json item : list_of(spec, "buffers")) {
    made->buffer_list.push_back({text(item.at(0)), zeros(item.at(1)), boolean(item.at(2))});
  }
  return made;
}

std::shared_ptr<core::Module> Builder::build_container(Json spec, const std::string& path) {
  const std::string type = text(member(spec, "type"));
  if (type == "Module" || type == "DataParallel") {
    auto made = std::static_pointer_cast<SpecModule>(user_class(spec));
    made->child_list = children(spec, path);
    return made;
  }
  const auto entries = children(spec, path);
  if (type == "Sequential") {
    auto made = std::make_shared<core::Sequential>();
    for (const auto& [name, child] : entries) made->add_module(name, child);
    return made;
  }
  if (type == "ModuleList") {
    auto made = std::make_shared<core::ModuleList>();
    for (const auto& entry : entries) made->push_back(entry.second);
    return made;
  }
  if (type != "ModuleDict") throw Missing{type};
  auto made = std::make_shared<core::ModuleDict>();
  for (const auto& [name, child] : entries) made->insert(name, child);
  return made;
}

std::shared_ptr<core::Module> Builder::build(Json spec, const std::string& path) {
  if (is_null(spec)) return nullptr;
  if (has(spec, "share")) return built_.at(text(member(spec, "share")));
  const auto made = has(spec, "children") ? build_container(spec, path) : build_leaf(spec);
  built_[path] = made;
  return made;
}

}  // namespace

void SpecModule::members(core::Members& m) {
  for (auto& [name, tensor] : parameter_list) m.parameter(name, tensor);
  for (Buffer& buffer : buffer_list) m.buffer(buffer.name, buffer.tensor, buffer.persistent);
  for (auto& [name, child] : child_list) m.child(name, child);
}

core::Tensor SpecModule::forward(const core::Tensor& x) {
  if (!chained) return Module::call(x);
  core::Tensor value = x;
  for (const auto& [name, child] : named_children()) value = child->call(value);
  return value;
}

BuiltModule build_module(Json spec) {
  try {
    Builder builder;
    return {builder.build(spec, ""), ""};
  } catch (const Missing& missing) {
    return {nullptr, missing.what};
  }
}

core::Tensor to_tensor(const GoldenArray& array) {
  return core::from_bytes(core::Bytes(array.bytes), array.shape, array.dtype);
}

core::ByteVector bytes_of(const core::Tensor& tensor) {
  const core::Tensor dense = tensor.detach().cpu().contiguous();
  const auto size =
      static_cast<std::size_t>(*core::byte_size(dense.dtype(), static_cast<std::uint64_t>(dense.numel())));
  const auto* data = static_cast<const std::byte*>(dense.raw_data());
  return core::ByteVector(data, data + size);
}

bool is_close(double ours, double theirs, core::DType dtype) {
  const bool is_double = dtype == core::DType::f64;
  const double rtol = is_double ? 1e-7 : 1.3e-6, atol = is_double ? 1e-7 : 1e-5;
  return std::isnan(theirs) ? std::isnan(ours) : std::abs(ours - theirs) <= atol + rtol * std::abs(theirs);
}

std::string difference(const core::Tensor& tensor, const GoldenArray& expected) {
  if (!tensor.defined()) return "it is undefined";
  if (tensor.dtype() != expected.dtype) return "dtype is " + std::string(core::name(tensor.dtype()));
  if (!(tensor.sizes() == expected.shape)) return "shape is " + core::to_list(tensor.sizes());
  const std::vector<double> ours = tensor.detach().to_vector<double>();
  const std::vector<double> theirs = to_tensor(expected).to_vector<double>();
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (is_close(ours[i], theirs[i], expected.dtype)) continue;
    return "element " + std::to_string(i) + " is " + std::to_string(ours[i]) + " where " + std::to_string(theirs[i]);
  }
  return "";
}

}  // namespace test
