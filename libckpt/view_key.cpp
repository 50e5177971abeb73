#include "libckpt/view_key.h"

namespace ckpt::detail {

ViewKey view_key(const Entry& entry) {
  std::int64_t offset = entry.view ? entry.view->offset : 0;
  std::vector<std::int64_t> strides = entry.view ? entry.view->strides.to_vector() : std::vector<std::int64_t>();
  return {storage_identity(entry), entry.dtype, entry.shape.to_vector(), entry.conjugate,
          entry.negative,          offset,      std::move(strides)};
}

}  // namespace ckpt::detail
