#pragma once
// What a module keeps of its computed parameters. Internal to libcore/module.
// Thread safety: as Module.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libcore/module/parametrize.h"

namespace core {

/// The steps that make one parameter, and what they start from.
struct ParametrizationList : ModuleOf<ParametrizationList> {
  std::vector<detail::Parametrization> steps;
  std::vector<Tensor> originals;
  bool is_buffer = false;

  void members(Members& m) override;
  Tensor forward() const;
};

namespace detail {

/// All of a module, as its child "parametrizations".
struct Parametrizations : ModuleOf<Parametrizations> {
  std::vector<std::pair<std::string, std::shared_ptr<ParametrizationList>>> lists;

  void members(Members& m) override;
  std::string class_name() const override { return "ModuleDict"; }
};

/// A parameter in the older style: what it is computed from are members of the module itself.
struct OwnMembers {
  virtual ~OwnMembers() = default;
  virtual std::unique_ptr<OwnMembers> copy() const = 0;
  virtual void list(Members& m) = 0;
  virtual Tensor compute(bool training) = 0;
  virtual const char* kind() const = 0;
  std::string name;
};

struct Reparametrized {
  std::vector<std::unique_ptr<OwnMembers>> own;
  Parametrizations lists;

  Reparametrized() = default;
  Reparametrized(const Reparametrized& other);
  bool empty() const { return own.empty() && lists.lists.empty(); }
  ParametrizationList* find(const std::string& name);
};

/// The member itself, whatever stands in its place; null when there is none.
Tensor* written_member(Module& module, const std::string& name, bool* is_buffer = nullptr);
/// v * g / |v|
Tensor weight_normed(const Tensor& v, const Tensor& g, std::optional<std::int64_t> dim);
Tensor norm_except_dim(const Tensor& v, std::optional<std::int64_t> dim);
/// Of a weight as a matrix with `dim` in front.
Tensor weight_matrix(const Tensor& weight, std::int64_t dim);

}  // namespace detail
}  // namespace core
