#include "libcore/dist/hooks.h"

#include "libcore/data/process_share.h"
#include "libcore/dist/init.h"

namespace core::distributed {

void install_hooks() {
  core::detail::set_process_share(core::detail::ProcessShare{get_world_size(), get_rank()});
  install_norm();
}

void remove_hooks() {
  core::detail::set_process_share(std::nullopt);
  remove_norm();
}

}  // namespace core::distributed
