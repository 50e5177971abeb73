#include "libcore/dist/backends.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>
#include <thread>
#include <vector>

#include "libcore/backend/device_registry.h"
#include "libcore/backend/nccl_rank.h"
#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/base/text.h"
#include "libcore/base/warning.h"
#include "libcore/dist/launch.h"

namespace core::distributed {
namespace {

using core::detail::fail;
using core::detail::fail_value;

/// How many ranks of one choice an error names.
constexpr std::size_t kNamed = 3;
/// How long rank 0, whose process may serve the store, waits until all have read it.
constexpr Milliseconds kFarewell(5000);
constexpr Milliseconds kPoll(5);
constexpr char kRead[] = "backend/read";
constexpr char kAllRead[] = "backend/all read";

Backends of_one_name(const std::string& name) {
  if (name.empty()) return {.cpu = "gloo", .cuda = "any"};
  if (name == "gloo" || name == "mpi") return {.text = name, .cpu = name, .cuda = "host"};
  if (name == "nccl") return {.text = name, .cuda = name};
  throw Error(ErrorCode::assertion, "Unknown backend type " + name);
}

/// "cpu:gloo,cuda:nccl", in small letters.
Backends of_pairs(const std::string& text) {
  const std::string hint =
      "The custom backend string argument is invalid: " + text +
      ". Custom backend string is an experimental feature where the backend string must be in the format: "
      "\"<device_type1>:<backend1>,<device_type2>:<backend2>...\". e.g. 'cpu:gloo,cuda:nccl'";
  Backends found{.text = text};
  for (const std::string_view pair : split(text, ',')) {
    const std::size_t colon = pair.find(':');
    if (colon == std::string_view::npos || pair.find(':', colon + 1) != std::string_view::npos) {
      fail_value("Invalid device:backend pairing: " + std::string(pair) + ". " + hint);
    }
    const std::string device(pair.substr(0, colon));
    const std::string name(pair.substr(colon + 1));
    if (device != "cpu" && device != "cuda")
      fail_value("Invalid device:backend pairing: " + std::string(pair) + ". " + hint);
    std::string& place = device == "cpu" ? found.cpu : found.cuda;
    if (!place.empty()) fail_value("Duplicate device type " + device + " in backend string: " + name + ". " + hint);
    if (name != "gloo" && name != "mpi" && name != "nccl")
      throw Error(ErrorCode::assertion, "Unknown backend type " + name);
    place = name;
  }
  if (found.cpu == "nccl") fail("No backend type associated with device type cpu");
  if (found.cuda == "nccl" || found.cuda.empty()) return found;
  // The memory of GPUs goes through that of the host.
  if (!found.cpu.empty() && found.cpu != found.cuda) {
    fail_value("the backend of cuda is " + found.cuda + " and that of cpu " + found.cpu +
               ", where tensors on a GPU go through host memory, by one backend for both");
  }
  found.cpu = found.cuda;
  found.cuda = "host";
  return found;
}

/// Why processes with no backend named exchange nothing by NCCL; empty: they do.
std::string why_through_host(int ranks) {
  if (std::string why = nccl::why_no_ranks(); !why.empty()) return why;
  const std::optional<std::int64_t> here = launch_facts().local_world_size;
  const int gpus = cuda::device_count();
  if (here.value_or(ranks) <= gpus) return {};
  const std::string has = gpus == 1 ? "1 GPU" : std::to_string(gpus) + " GPUs";
  if (here) return has + " for " + std::to_string(*here) + " processes of this machine";
  return has + " for " + std::to_string(ranks) + " ranks, of which no launcher says how many this machine has";
}

/// Of packed(): four lines, the last of which may hold more.
Backends unpacked(std::string_view text) {
  Backends one;
  for (std::string* part : {&one.text, &one.cpu, &one.cuda}) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    part->assign(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  one.why.assign(text);
  return one;
}

std::string title(const Backends& one) {
  if (!one.text.empty()) return one.text;
  if (one.cuda == "nccl") return one.cpu + ", and nccl for GPUs, as none was named";
  return one.cpu + ", as none was named and nccl cannot be used (" + one.why + ")";
}

/// "rank 0 (gpu03, process 4711), rank 1 (gpu03, process 4712) and 6 more".
std::string names_of(const std::vector<int>& ranks, const Watch& watch) {
  std::string text;
  for (std::size_t i = 0; i < std::min(ranks.size(), kNamed); ++i)
    text += (i == 0 ? "" : ", ") + watch.describe(ranks[i]);
  if (ranks.size() > kNamed) text += " and " + std::to_string(ranks.size() - kNamed) + " more";
  return text;
}

std::string by_rank(const std::vector<Backends>& all, const Watch& watch) {
  std::map<std::string, std::vector<int>> takers;
  std::vector<std::string> in_order;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    std::vector<int>& ranks = takers[title(all[rank])];
    if (ranks.empty()) in_order.push_back(title(all[rank]));
    ranks.push_back(static_cast<int>(rank));
  }
  std::string text;
  for (const std::string& choice : in_order) {
    const std::vector<int>& ranks = takers[choice];
    text += (text.empty() ? "" : "; ") + names_of(ranks, watch) + (ranks.size() == 1 ? " takes " : " take ") + choice;
  }
  return text;
}

/// Whether all can go through the memory of their hosts, with nobody getting another backend than was asked for.
bool meets_in_host(const std::vector<Backends>& all) {
  return std::all_of(all.begin(), all.end(), [&](const Backends& one) {
    return one.cpu == all[0].cpu && !one.cpu.empty() && (one.cuda != "nccl" || one.text.empty());
  });
}

/// Error(runtime), the same on every rank, where one that names nccl cannot use it: the others would wait in vain.
void fail_where_nccl_cannot_be(const std::vector<Backends>& all, const Watch& watch) {
  std::map<std::string, std::vector<int>> without;  // by the reason
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].cuda == "nccl" && !all[rank].why.empty()) without[all[rank].why].push_back(static_cast<int>(rank));
  }
  if (without.empty()) return;
  std::string text;
  for (const auto& [why, ranks] : without) text += (text.empty() ? "" : "; ") + names_of(ranks, watch) + ": " + why;
  fail("the backend nccl is named, which not all ranks can use: " + text);
}

/// No process ends, and with it the store, before all know what the others take; also one that exchanges nothing.
void wait_until_all_have_read(int rank, int size, const Watch& watch) {
  Store& store = *watch.store();
  try {
    if (store.add(kRead, 1) == size) store.set(kAllRead, "");
    if (rank != 0) return;
    const Deadline until = deadline_after(kFarewell);
    while (!store.check({kAllRead}) && !watch.has_lost_any() && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(kPoll);
    }
  } catch (const Error&) {  // one that is gone, as whoever waits for it comes to know
  }
}

}  // namespace

Backends chosen_backends(const std::string& text) {
  std::string small = text;
  std::transform(small.begin(), small.end(), small.begin(), [](unsigned char c) { return std::tolower(c); });
  Backends found = small.find(':') == std::string::npos ? of_one_name(small) : of_pairs(small);
  if (found.cuda == "nccl") found.why = nccl::why_no_ranks();
  return found;
}

Backends settled(Backends ours, int ranks) {
  if (ours.cuda == "nccl" && ranks == 1 && !ours.why.empty()) fail(ours.why);
  if (ours.cuda != "any") return ours;
  ours.why = why_through_host(ranks);
  ours.cuda = ours.why.empty() ? "nccl" : "host";
  return ours;
}

std::string packed(const Backends& one) {
  return one.text + "\n" + one.cpu + "\n" + one.cuda + "\n" + one.why;
}

Backends agreed_backends(Backends ours, int rank, int size, const Watch& watch) {
  std::vector<Backends> all;
  for (int other = 0; other < size; ++other) all.push_back(unpacked(watch.said(other)));
  wait_until_all_have_read(rank, size, watch);
  fail_where_nccl_cannot_be(all, watch);
  const bool are_alike = std::all_of(all.begin(), all.end(),
                                     [&](const Backends& one) { return one.cpu == ours.cpu && one.cuda == ours.cuda; });
  if (are_alike) return ours;
  if (!meets_in_host(all)) {
    fail("the ranks do not take the same backend, which would wait for each other in vain: " + by_rank(all, watch) +
         "; name one in init_process_group, the same on all ranks");
  }
  if (ours.cuda == "nccl") ours.cuda = "host";
  if (rank == 0 && std::any_of(all.begin(), all.end(), [](const Backends& one) { return one.cuda == "nccl"; })) {
    warn("tensors on GPUs go through the memory of the host, as not all ranks can use nccl: " + by_rank(all, watch));
  }
  return ours;
}

}  // namespace core::distributed
