// Of collectives.h what has no numbers to compute: barriers, messages between two ranks, objects.
#include <algorithm>
#include <cstring>
#include <utility>

#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/dist/collectives.h"
#include "libcore/dist/elements.h"
#include "libcore/dist/init.h"
#include "libcore/tensor/factory.h"

namespace core::distributed {

using core::detail::fail;
using core::detail::fail_value;

Work barrier(const CollectiveOptions& options) {
  const Group group = chosen(options.group);
  if (!takes_part(group, "barrier")) return {};
  std::optional<Device> device;
  if (!group->takes_host_memory()) device = group->own_device();
  if (device) group->exchanges_on(*device);
  return started(group,
                 {.fingerprint = {.op = "BARRIER"},
                  .what = "barrier",
                  .label = options.label,
                  .run = [](Engine& engine, const Call& call) { engine.barrier(call); },
                  .device = device},
                 options.async_op);
}

void monitored_barrier(const MonitoredBarrierOptions& options) {
  const Group group = chosen(options.group);
  if (!takes_part(group, "monitored_barrier")) return;
  const Milliseconds timeout = options.timeout.value_or(group->timeout());
  Store& store = group->store();
  const std::string name =
      "monitored_barrier/" + std::to_string(store.add("monitored_barrier/calls/" + std::to_string(group->rank()), 1));
  if (group->rank() != 0) {
    store.set(name + "/" + std::to_string(group->rank()), "");
    try {
      store.wait({name}, timeout);
    } catch (const Error&) {
      fail(
          "Rank " + std::to_string(group->rank()) +
          " successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0. Please "
          "check rank 0 logs for faulty rank.");
    }
    return;
  }
  const Deadline deadline = deadline_after(timeout);
  std::string missing;
  int count = 0;
  for (int rank = 1; rank < group->size(); ++rank) {
    const auto left = std::chrono::duration_cast<Milliseconds>(deadline - std::chrono::steady_clock::now());
    try {
      store.wait({name + "/" + std::to_string(rank)}, std::max(left, Milliseconds(1)));
      continue;
    } catch (const Error&) {
      missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
      ++count;
    }
    if (!options.wait_all_ranks) break;
  }
  if (count > 0) {
    fail("[Rank 0]: Ranks " + missing + " failed to pass monitoredBarrier in " + std::to_string(timeout.count()) +
         " ms");
  }
  store.set(name, "");
}

namespace {

Work message(const Tensor& tensor, int peer, const MessageOptions& options, bool is_send) {
  const Group group = chosen(options.group);
  const std::string what = is_send ? "send" : "recv";
  if (!takes_part(group, what.c_str())) return {};
  if (peer == get_rank()) {
    fail_value(
        is_send
            ? "Invalid destination rank: destination rank should not be the same as the rank of the current process."
            : "Invalid source rank: source rank should not be the same as the rank of the current process.");
  }
  const int other = group->rank_of(peer);
  if (other < 0) fail_value("Global rank " + std::to_string(peer) + " is not part of group");
  if (group->host_engine() == "mpi" && options.tag > kLargestMpiTag) {
    fail_value("tag " + std::to_string(options.tag) +
               " is larger than the backend mpi allows: " + std::to_string(kLargestMpiTag));
  }
  const Elements copy(tensor, group);
  Request request{.fingerprint = print_of("MESSAGE", {tensor}),
                  .what = what + (is_send ? " to rank " : " from rank ") + std::to_string(peer),
                  .is_message = true,
                  .message_tag = options.tag,
                  .device = copy.device(),
                  .peer = other,
                  .is_send = is_send};
  request.run = [copy, other, is_send, data = copy.data()](Engine& engine, const Call& call) {
    if (is_send) {
      engine.send(data, copy.bytes(), other, call);
    } else {
      engine.receive(data, copy.bytes(), other, call);
    }
  };
  if (!is_send) request.finish = [copy] { copy.give_back(); };
  return group->start(std::move(request));
}

}  // namespace

Work isend(const Tensor& tensor, int dst, const MessageOptions& options) {
  return message(tensor, dst, options, true);
}
Work irecv(const Tensor& tensor, int src, const MessageOptions& options) {
  return message(tensor, src, options, false);
}
void send(const Tensor& tensor, int dst, const MessageOptions& options) {
  isend(tensor, dst, options).wait();
}
int recv(const Tensor& tensor, int src, const MessageOptions& options) {
  irecv(tensor, src, options).wait();
  return src;
}

namespace {

/// `size` bytes that begin with the text, where the group exchanges what it says for itself.
Tensor text_tensor(const std::string& text, std::int64_t size, const Group& group) {
  const Tensor bytes = zeros({size}, {.dtype = DType::u8});
  if (!text.empty()) std::memcpy(bytes.mutable_raw_data(), text.data(), text.size());
  return bytes.to(group->own_device());
}
std::string text_in(const Tensor& bytes, std::int64_t size) {
  return std::string(static_cast<const char*>(bytes.raw_data()), static_cast<std::size_t>(size));
}
Tensor numbers_for(const Group& group, std::int64_t count) {
  return zeros({count}, {.dtype = DType::i64, .device = group->own_device()});
}

}  // namespace

std::string broadcast_object(const std::string& text, int src, const Group& given) {
  const Group group = chosen(given);
  const Tensor size = numbers_for(group, 1);
  const bool is_source = group->rank_of(src) == group->rank();
  if (is_source) size.fill_(static_cast<std::int64_t>(text.size()));
  broadcast(size, src, {.group = group, .label = "size of an object"});
  const auto count = size.item<std::int64_t>();
  const Tensor bytes = text_tensor(is_source ? text : "", count, group);
  broadcast(bytes, src, {.group = group, .label = "object"});
  return text_in(bytes.cpu(), count);
}

std::vector<std::string> all_gather_object(const std::string& text, const Group& given) {
  const Group group = chosen(given);
  const Tensor own = numbers_for(group, 1);
  own.fill_(static_cast<std::int64_t>(text.size()));
  const Tensor sizes = numbers_for(group, group->size());
  all_gather_into_tensor(sizes, own, {.group = group, .label = "sizes of objects"});
  const std::vector<std::int64_t> counts = sizes.cpu().to_vector<std::int64_t>();
  const std::int64_t most = *std::max_element(counts.begin(), counts.end());
  const Tensor gathered = text_tensor("", group->size() * most, group);
  all_gather_into_tensor(gathered, text_tensor(text, most, group), {.group = group, .label = "objects"});
  const Tensor all = gathered.cpu();
  std::vector<std::string> texts;
  for (int rank = 0; rank < group->size(); ++rank) {
    texts.push_back(text_in(all.narrow(0, rank * most, most), counts[static_cast<std::size_t>(rank)]));
  }
  return texts;
}

}  // namespace core::distributed
