#pragma once
// Distributions and transforms from their description in golden data. Thread safety: none.
// Use: test::Maker maker(arrays); auto normal = maker.distribution(json); maker.leaves["loc"].grad();

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "libcore/distributions.h"
#include "tests/support/golden_json.h"

namespace test {

core::Tensor tensor_of(const GoldenArray& array);

class Maker {
 public:
  explicit Maker(const GoldenArrays& arrays) : arrays_(arrays) {}
  std::shared_ptr<const core::distributions::Distribution> distribution(Json made);
  core::distributions::Transform transform(Json made);
  /// The tensors that need gradients among all arguments, by the path to them: "base_distribution.loc".
  std::map<std::string, core::Tensor> leaves;
  /// Before the paths of what is made next.
  std::string path;

 private:
  core::distributions::Argument argument(Json made, const char* name);
  core::Tensor tensor(Json made, const char* name);
  core::distributions::ProbsOrLogits probs_or_logits(Json made);
  std::shared_ptr<const core::distributions::Distribution> inner(Json made, const char* name);
  std::vector<core::distributions::Transform> transforms(Json made, const char* name);
  core::distributions::Transform joined(Json made, const std::string& name);
  core::distributions::NormalMatrix normal_matrix(Json made);
  // Each null where the name is none of theirs.
  std::shared_ptr<const core::distributions::Distribution> of_numbers(Json made, const std::string& name);
  std::shared_ptr<const core::distributions::Distribution> discrete(Json made, const std::string& name);
  std::shared_ptr<const core::distributions::Distribution> relaxed(Json made, const std::string& name);
  std::shared_ptr<const core::distributions::Distribution> of_matrices(Json made, const std::string& name);
  std::shared_ptr<const core::distributions::Distribution> of_others(Json made, const std::string& name);

  const GoldenArrays& arrays_;
};

}  // namespace test
