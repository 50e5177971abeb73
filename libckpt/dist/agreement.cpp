#include "libckpt/dist/agreement.h"

#include "libcore/base/error.h"

namespace ckpt::dist {

std::string outcome_of(const std::function<std::string()>& step) {
  try {
    return "+" + step();
  } catch (const std::exception& error) {
    return "-" + std::string(error.what());
  }
}

bool went_well(const std::string& outcome) {
  return outcome.starts_with('+');
}

std::vector<std::string> agree(Ranks& ranks, const std::string& outcome) {
  std::vector<std::string> outcomes = ranks.exchange(outcome);
  std::string failures;
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    if (went_well(outcomes[rank])) continue;
    std::string who = ranks.size() == 1 ? "" : "rank " + std::to_string(rank) + ": ";
    failures += (failures.empty() ? "" : "; ") + who + (outcomes[rank].empty() ? "" : outcomes[rank].substr(1));
  }
  if (!failures.empty()) throw core::Error(core::ErrorCode::io, failures);
  for (std::string& text : outcomes) text.erase(0, 1);
  return outcomes;
}

}  // namespace ckpt::dist
