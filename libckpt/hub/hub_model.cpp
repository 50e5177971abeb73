#include "libckpt/hub/hub_model.h"

#include <algorithm>

#include "libckpt/io/atomic_file.h"
#include "libckpt/io/atomic_folder.h"
#include "libckpt/open_save.h"

namespace ckpt {

void save_hub_model(const HubModel& model, const std::filesystem::path& folder, const SaveOptions& options) {
  auto is_ours = [&](std::string_view name) {
    const bool text = std::ranges::any_of(model.files, [&](const auto& file) { return file.first == name; });
    return text || name == model.weights_name;
  };
  AtomicFolder whole(folder, {.overwrite = options.overwrite, .durable = options.durable, .may_replace = is_ours});
  SaveOptions inner = options;
  inner.format = "safetensors";
  save(model.weights, whole.hidden() / model.weights_name, inner);
  for (const auto& [name, bytes] : model.files) {
    AtomicFile file(whole.hidden() / name, {.durable = options.durable});
    file.write(bytes);
    file.commit();
  }
  whole.commit();
}

}  // namespace ckpt
