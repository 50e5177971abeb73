#include "libcore/tensor/untracked_views.h"

namespace core::detail {

constinit thread_local bool views_are_untracked = false;
constinit thread_local SpareViews* spare_views = nullptr;

}  // namespace core::detail
