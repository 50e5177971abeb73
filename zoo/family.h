#pragma once
// Families of models: what builds one from the keyword arguments of its constructor. A family bears the name of the
// class in torchvision, Hugging Face, or the tutorial that has it.
// Thread safety: constants; build() draws from the default generator.
// Use: const zoo::Family* family = zoo::find_family("LlamaForCausalLM"); auto net = zoo::build(*family, config);

#include <memory>
#include <span>
#include <string_view>

#include "zoo/config.h"
#include "zoo/zoo.h"

namespace zoo {

struct Family {
  std::string_view name;  ///< "ResNet"
  Input input;
  Answer answer;
  std::shared_ptr<core::Module> (*make)(Fields& fields);
  std::string_view classes = {};   ///< the field that ModelOptions::num_classes sets; empty: none
  std::string_view channels = {};  ///< that of ModelOptions::in_channels
  /// Its main output for `x` where a plain call does not give it; else null.
  core::Tensor (*main_output)(core::Module& module, const core::Tensor& x) = nullptr;
  std::string_view with_classes = {};  ///< the family that stands in when a number of classes is asked for
};

/// All families, in the order of the files that have them.
std::span<const Family> families();
/// Null when there is none of that name.
const Family* find_family(std::string_view name);
/// A model with freshly drawn parameters. Errors: those of Fields; Error(unsupported) naming a field that the family
/// does not know.
std::shared_ptr<core::Module> build(const Family& family, const Config& config);

namespace detail {

std::span<const Family> image_families();
std::span<const Family> language_families();
std::span<const Family> hf_image_families();
std::span<const Family> pair_families();
std::span<const Family> small_families();

/// Reads the fields, has the rest refused, makes the model.
template <class M, auto read>
std::shared_ptr<core::Module> made(Fields& fields) {
  const auto options = read(fields);
  fields.finish();
  return std::make_shared<M>(options);
}

}  // namespace detail

}  // namespace zoo
