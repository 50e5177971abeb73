#pragma once
// What the `Use:` lines of libcore/dist take as given: a model, a group and its store, and what is under way.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libcore/core.h"
#include "libcore/dist.h"
#include "libcore/dist/buckets.h"
#include "libcore/dist/engine.h"
#include "libcore/dist/socket.h"
#include "libcore/dist/store_service.h"

namespace core::distributed::user {

extern Tensor t, x, y;
extern Linear net;
extern SGD optimizer;
extern const std::function<Tensor(const Tensor&, const Tensor&)> loss;
extern const std::function<void()> compute;
extern const std::vector<std::pair<std::string, Tensor>> trained;

extern const Group group;
extern const std::shared_ptr<Store> store;
extern const int r, n;  // this rank, and how many there are
extern const std::uint64_t sequence;

extern const std::vector<BucketItem> sizes;  // of gradients
extern const Engine& engine;
extern StoreService service;
extern const std::string bytes;
extern const Deadline deadline;

}  // namespace core::distributed::user
