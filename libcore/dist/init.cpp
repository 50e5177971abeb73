#include "libcore/dist/init.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <set>
#include <string_view>
#include <thread>

#include "libcore/backend/nccl_rank.h"
#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/base/warning.h"
#include "libcore/dist/backends.h"
#include "libcore/dist/hooks.h"
#include "libcore/dist/mpi_library.h"
#include "libcore/dist/tcp_store.h"

namespace core::distributed {
namespace {

using core::detail::fail;
using core::detail::fail_value;

/// Never destroyed: threads may still be caught in an engine when the process ends.
struct World {
  std::mutex mutex;
  Group group;
  std::vector<std::function<bool()>> caretakers;  // of groups
  std::shared_ptr<Watch> watch;
  std::string address;
  std::string interface;
  Backends backends;
  bool is_mpi() const { return backends.cpu == "mpi"; }
  std::int64_t groups_made = 0;
};
World& world() {
  static World& one = *new World;
  return one;
}

struct Meeting {
  std::shared_ptr<Store> store = {};
  int rank = 0;
  int size = 1;
  std::string host = "127.0.0.1";  // of rank 0, to find out which of our addresses is seen from there
  std::uint16_t port = 0;
  std::shared_ptr<TcpStore> over_tcp = {};  // the store, where it is of this meeting alone
};

std::int64_t given(const std::optional<std::int64_t>& option, const std::optional<std::int64_t>& said,
                   const char* name) {
  if (option) return *option;
  if (said) return *said;
  fail_value("Error initializing torch.distributed using env:// rendezvous: environment variable " + std::string(name) +
             " expected, but not set");
}

Meeting checked(Meeting meeting, std::int64_t rank, std::int64_t size) {
  if (size < 1) fail_value("world_size is " + std::to_string(size) + ", where at least one process takes part");
  if (size > 1'000'000) fail_value("world_size is " + std::to_string(size) + ", where 1000000 is the most");
  if (rank < 0) fail_value("rank is " + std::to_string(rank) + ", where 0 is the first");
  meeting.rank = static_cast<int>(std::min<std::int64_t>(rank, 1'000'000'000));
  meeting.size = static_cast<int>(size);
  return meeting;
}

constexpr char kDefaultGroup[] = "default_pg";

/// Who has the port may be another process that was started as rank 0: both are told then.
void look_for_other_rank_zero(const Meeting& meeting) {
  try {
    const auto there = std::make_shared<TcpStore>(TcpStore::Options{
        .host = meeting.host, .port = meeting.port, .wait_for_workers = false, .timeout = Milliseconds(3000)});
    Watch::meet_other_hub(std::make_shared<PrefixStore>(kDefaultGroup, there));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::value) throw;  // else it is something else
  }
}

/// The store served by rank 0, or by torchrun.
void open_tcp_store(Meeting& meeting, Milliseconds timeout, bool agent_store) {
  // Rank 0 waits for the others afterwards, in the watch.
  const TcpStore::Options options{.host = meeting.host,
                                  .port = meeting.port,
                                  .world_size = meeting.size,
                                  .is_server = meeting.rank == 0 && !agent_store,
                                  .wait_for_workers = false,
                                  .timeout = timeout};
  std::shared_ptr<TcpStore> store;
  try {
    store = std::make_shared<TcpStore>(options);
  } catch (const Error&) {
    if (options.is_server) look_for_other_rank_zero(meeting);
    throw;
  }
  if (!agent_store) meeting.over_tcp = store;
  meeting.store = std::move(store);
}

/// As PyTorch: torchrun serves the store where it says so, and at no other place that the program may name.
void open_store_of_launch(Meeting& meeting, Milliseconds timeout, const LaunchFacts& facts) {
  const bool by_agent =
      facts.agent_store && facts.master_addr == meeting.host && facts.master_port == std::optional(meeting.port);
  open_tcp_store(meeting, timeout, by_agent);
  if (!by_agent) return;
  // It may stay when torchrun starts all again, with what the ranks before left in it.
  const std::string attempt = "/worker/attempt_" + std::to_string(facts.attempt);
  meeting.store = std::make_shared<PrefixStore>(attempt, meeting.store);
}

/// Of this machine: what MASTER_ADDR says, else the one from which other networks are reached.
std::string address_for_others() {
  const std::optional<std::string> said = launch_facts().master_addr;
  if (said && !is_loopback(*said)) return *said;
  constexpr char kSomewhere[] = "192.0.2.1";  // kept for examples; nothing is sent there
  const std::string address = address_towards(kSomewhere, 9);
  if (address.empty()) {
    throw Error(ErrorCode::io,
                "the address of this machine, where rank 0 runs, is not known: it has no way to other networks; name "
                "it in MASTER_ADDR");
  }
  return address;
}

Meeting meet_by_environment(const InitOptions& options) {
  const LaunchFacts facts = launch_facts();
  const std::int64_t rank = given(options.rank, facts.rank, "RANK");
  const std::int64_t size = given(options.world_size, facts.world_size, "WORLD_SIZE");
  Meeting meeting = checked({}, rank, size);
  if (!facts.master_addr) given({}, {}, "MASTER_ADDR");
  if (!facts.master_port) given({}, {}, "MASTER_PORT");
  meeting.host = *facts.master_addr;
  meeting.port = *facts.master_port;
  open_store_of_launch(meeting, options.timeout, facts);
  return meeting;
}

std::int64_t needed(const std::optional<std::int64_t>& option, const std::optional<std::int64_t>& said,
                    const char* what, const char* method) {
  if (option) return *option;
  if (said) return *said;
  fail_value("Error initializing torch.distributed using " + std::string(method) + " rendezvous: " + what +
             " parameter missing");
}

Meeting meet_at_address(const InitOptions& options, const std::string& address) {
  const LaunchFacts facts = launch_facts();
  const std::int64_t rank = needed(options.rank, facts.rank, "rank", "tcp://");
  const std::int64_t size = needed(options.world_size, facts.world_size, "world size", "tcp://");
  Meeting meeting = checked({}, rank, size);
  const std::size_t colon = address.rfind(':');
  int port = 0;
  if (colon == std::string::npos ||
      std::from_chars(address.data() + colon + 1, address.data() + address.size(), port).ptr !=
          address.data() + address.size() ||
      port < 0 || port > 65535) {
    fail_value("Error initializing torch.distributed using tcp:// rendezvous: port number missing");
  }
  meeting.host = address.substr(0, colon);
  if (meeting.host.starts_with("[") && meeting.host.ends_with("]"))
    meeting.host = meeting.host.substr(1, meeting.host.size() - 2);
  meeting.port = static_cast<std::uint16_t>(port);
  open_store_of_launch(meeting, options.timeout, facts);
  return meeting;
}

Meeting meet_in_file(const InitOptions& options, const std::string& path) {
  const LaunchFacts facts = launch_facts();
  const std::int64_t rank = needed(options.rank, facts.rank, "rank", "file://");
  const std::int64_t size = needed(options.world_size, facts.world_size, "world size", "file://");
  Meeting meeting = checked({}, rank, size);
  if (path.empty()) fail_value("Error initializing torch.distributed using file:// rendezvous: path missing");
  meeting.store = std::make_shared<FileStore>(path, meeting.size, options.timeout);
  if (facts.master_addr) meeting.host = *facts.master_addr;
  return meeting;
}

/// MPI knows who takes part; rank 0 tells all where its store is.
Meeting meet_by_mpi(const InitOptions& options) {
  const MpiFacts& facts = start_mpi(options.timeout);
  if (options.rank || options.world_size) {
    warn("For MPI backend, world_size (" + std::to_string(options.world_size.value_or(-1)) + ") and rank (" +
         std::to_string(options.rank.value_or(-1)) + ") are ignored since they are assigned by the MPI runtime.");
  }
  Meeting meeting{.rank = facts.rank, .size = facts.size};
  std::string place;
  if (facts.rank == 0) {
    if (facts.local_size < facts.size) meeting.host = address_for_others();
    auto store = std::make_shared<TcpStore>(
        TcpStore::Options{.host = meeting.host, .port = 0, .is_server = true, .timeout = options.timeout});
    place = std::to_string(store->port()) + " " + meeting.host;
    meeting.over_tcp = store;
    meeting.store = std::move(store);
  }
  place = share_by_mpi(place, options.timeout);
  const std::size_t space = place.find(' ');
  meeting.port = static_cast<std::uint16_t>(std::atoi(place.substr(0, space).c_str()));
  meeting.host = place.substr(space + 1);
  if (!meeting.store) open_tcp_store(meeting, options.timeout, true);
  return meeting;
}

bool meets_by_mpi(const InitOptions& options) {
  return world().is_mpi() || options.init_method.starts_with("mpi://");
}

Meeting meet(const InitOptions& options) {
  const std::string& method = options.init_method;
  if (meets_by_mpi(options)) return meet_by_mpi(options);
  if (options.store) {
    if (!options.rank || !options.world_size) fail_value("rank and world_size must be given with a store");
    Meeting meeting = checked({}, *options.rank, *options.world_size);
    meeting.store = options.store;
    return meeting;
  }
  if (method.starts_with("env://")) return meet_by_environment(options);
  if (method.starts_with("tcp://")) return meet_at_address(options, method.substr(6, method.find('?', 6) - 6));
  if (method.starts_with("file://")) return meet_in_file(options, method.substr(7));
  const std::size_t scheme = method.find("://");
  fail("No rendezvous handler for " + (scheme == std::string::npos ? method : method.substr(0, scheme)) + "://");
}

/// Where this process listens: at the address from which rank 0's machine is reached.
void find_place(World& all, const Meeting& meeting) {
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  all.interface = interface == nullptr ? "" : std::string(interface);
  all.interface = all.interface.substr(0, all.interface.find(','));
  all.address = is_loopback(meeting.host) ? "127.0.0.1" : address_towards(meeting.host, meeting.port);
  if (all.address.empty()) {
    throw Error(ErrorCode::io,
                "there is no way from this machine to " + meeting.host +
                    "; name a network card in GLOO_SOCKET_IFNAME, or the machine of rank 0 in MASTER_ADDR");
  }
}

/// Among the processes of this machine.
std::int64_t local_rank() {
  const LaunchFacts facts = launch_facts();
  return facts.local_rank.value_or(facts.rank.value_or(0));
}

/// The engine; where there is none because another rank is gone, the error that names it.
std::unique_ptr<Engine> connected_engine(const EngineOptions& options) {
  const World& all = world();
  try {
    return all.is_mpi() ? make_mpi_engine(options) : make_gloo_engine(options);
  } catch (const std::exception& error) {
    // The news takes another road than the broken connection; after a time-out the others wait for ours.
    const bool timed_out = std::string_view(error.what()).find("imed out") != std::string_view::npos;
    for (const Deadline until = deadline_after(Watch::kGrace); all.watch;) {
      if (const auto event = all.watch->event_of(options.ranks)) {
        throw Error(ErrorCode::runtime, "rank " + std::to_string(options.rank) + " of " + std::to_string(options.size) +
                                            ": connecting to all others: " + all.watch->sentence(*event));
      }
      if (timed_out || std::chrono::steady_clock::now() >= until) break;
      std::this_thread::sleep_for(Milliseconds(10));
    }
    throw;
  }
}

std::function<bool()> has_lost_one(const std::shared_ptr<Watch>& watch, const std::vector<int>& ranks) {
  return [watch, ranks] {
    const auto event = watch ? watch->event_of(ranks) : std::nullopt;
    return event && std::chrono::steady_clock::now() - event->when >= Watch::kGrace;
  };
}

Group make_group(const std::string& name, const std::vector<int>& ranks, int rank, const std::shared_ptr<Store>& store,
                 Milliseconds timeout) {
  World& all = world();
  auto own = std::make_shared<PrefixStore>(name, store);
  ProcessGroup::Parts parts{.name = name,
                            .ranks = ranks,
                            .rank = rank,
                            .engine = nullptr,
                            .through_host = all.backends.cuda == "host",
                            .backend = all.backends.text,
                            .local_rank = local_rank(),
                            .store = own,
                            .watch = all.watch,
                            .timeout = timeout};
  if (rank >= 0) {
    const EngineOptions options{.rank = rank,
                                .size = static_cast<int>(ranks.size()),
                                .store = std::make_shared<PrefixStore>(all.is_mpi() ? "mpi" : "gloo", own),
                                .address = all.address,
                                .interface = all.interface,
                                .timeout = timeout,
                                .ranks = ranks,
                                .is_in_vain = has_lost_one(all.watch, ranks)};
    if (!all.backends.cpu.empty()) parts.engine = connected_engine(options);
    EngineOptions on_gpus = options;
    on_gpus.store = std::make_shared<PrefixStore>("cuda", own);
    if (all.backends.cuda == "nccl") parts.make_device_engine = [on_gpus] { return make_nccl_engine(on_gpus); };
  }
  auto group = std::make_shared<ProcessGroup>(std::move(parts));
  if (rank < 0 || !all.watch) return group;
  const std::lock_guard lock(all.mutex);
  all.caretakers.push_back(group->caretaker());
  return group;
}

void look_after_all() {
  const std::lock_guard lock(world().mutex);
  std::erase_if(world().caretakers, [](const auto& look_after) { return !look_after(); });
}

/// When it returns all are there, and take the same backends. They are waited for `patience`; `timeout` is the store's.
std::shared_ptr<Store> meet_the_others(World& all, const Meeting& meeting, Milliseconds timeout,
                                       Milliseconds patience) {
  auto store = std::make_shared<PrefixStore>(kDefaultGroup, meeting.store);
  store->set_timeout(timeout);
  // Ranks that are through with this group before others may begin the next one at the same port at once.
  const auto leave_the_port = [own = meeting.over_tcp] {
    if (own) own->stop_listening();
  };
  if (meeting.size == 1) {
    leave_the_port();
    return store;
  }
  all.watch = std::make_shared<Watch>(Watch::Options{.rank = meeting.rank,
                                                     .size = meeting.size,
                                                     .store = store,
                                                     .address = all.address,
                                                     .said = packed(all.backends),
                                                     .all_are_here = leave_the_port,
                                                     .timeout = patience});
  try {
    all.backends = agreed_backends(all.backends, meeting.rank, meeting.size, *all.watch);
  } catch (...) {
    all.watch.reset();
    throw;
  }
  all.watch->set_tick(look_after_all);
  return all.watch->store();
}

Meeting checked_meeting(const InitOptions& options) {
  Meeting meeting = meet(options);
  if (meeting.rank < meeting.size) return meeting;
  fail_value("rank is " + std::to_string(meeting.rank) + ", where world_size=" + std::to_string(meeting.size) +
             " has ranks 0 to " + std::to_string(meeting.size - 1));
}

struct Met {
  Meeting meeting;
  std::shared_ptr<Store> store;  // of what concerns these ranks alone
};

/// A rank 0 that ends before all have met was one of an earlier group, or is started again: the next is waited for.
Met meet_all(World& all, const InitOptions& options) {
  const Deadline deadline = deadline_after(options.timeout);
  constexpr Milliseconds kPause(50);
  InitOptions attempt = options;
  while (true) {
    try {
      Met met{.meeting = checked_meeting(attempt), .store = nullptr};
      find_place(all, met.meeting);
      all.backends = settled(std::move(all.backends), met.meeting.size);
      met.store = meet_the_others(all, met.meeting, options.timeout, attempt.timeout);
      return met;
    } catch (const LostStore&) {
      const bool may_be_met_anew = !options.store && !meets_by_mpi(options) && !launch_facts().agent_store;
      if (!may_be_met_anew || std::chrono::steady_clock::now() + kPause >= deadline) throw;
    }
    std::this_thread::sleep_for(kPause);
    attempt.timeout = std::chrono::ceil<Milliseconds>(deadline - std::chrono::steady_clock::now());  // of the first one
  }
}

/// JSON text of a string.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) {
      out += c;
    } else {
      out += c == '\n' ? "\\n" : " ";
    }
  }
  return out + "\"";
}

/// As torch.distributed.elastic writes it; the first error of a process stays.
void write_error_file(const char* path, const std::string& text) {
  const int fd = ::open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  const std::string json = "{\"message\": {\"message\": " + quoted(text) +
                           ", \"extraInfo\": {\"py_callstack\": \"\", \"timestamp\": \"" + std::to_string(seconds) +
                           "\"}}}";
  for (std::string_view rest = json; !rest.empty();) {
    const ssize_t n = ::write(fd, rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
  ::close(fd);
}

}  // namespace

void init_process_group(const InitOptions& options) {
  World& all = world();
  if (all.group) fail_value("trying to initialize the default process group twice!");
  all.backends = chosen_backends(options.backend);
  const Met met = meet_all(all, options);
  const Meeting& meeting = met.meeting;
  // Ranks that wait for one which ends without destroy_process_group must not wait for it in MPI, nor it for them.
  if (meets_by_mpi(options)) {
    before_mpi_ends([] {
      if (!world().watch) return;
      if (world().watch->has_lost_any()) give_up_mpi();
      world().watch->vanish();
    });
  }
  std::vector<int> ranks(static_cast<std::size_t>(meeting.size));
  for (int rank = 0; rank < meeting.size; ++rank) ranks[static_cast<std::size_t>(rank)] = rank;
  try {
    all.group = make_group("0", ranks, meeting.rank, met.store, options.timeout);
  } catch (const std::exception& error) {
    // What the others hear is not a mere goodbye.
    if (all.watch && !all.watch->event_of(ranks)) all.watch->say_failed(error.what());
    all.watch.reset();
    throw;
  }
  install_hooks();
}

void destroy_process_group() {
  World& all = world();
  if (!all.group) throw Error(ErrorCode::assertion, "Process group cannot be None");
  remove_hooks();
  all.group.reset();
  if (all.watch) all.watch->set_tick(nullptr);
  all.caretakers.clear();
  all.watch.reset();
}

bool is_initialized() {
  return world().group != nullptr;
}
bool is_gloo_available() {
  return has_gloo();
}
bool is_nccl_available() {
  return nccl::why_no_ranks().empty();
}
bool is_mpi_available() {
  try {
    mpi_plugin();
    return true;
  } catch (const Error&) {
    return false;
  }
}

Group default_group() {
  if (world().group) return world().group;
  fail_value("Default process group has not been initialized, please make sure to call init_process_group.");
}

int get_rank(const Group& group) {
  return group ? group->rank() : default_group()->rank();
}
int get_world_size(const Group& group) {
  if (group) return group->rank() < 0 ? -1 : group->size();
  return default_group()->size();
}
std::string get_backend(const Group& group) {
  return group ? group->backend() : default_group()->backend();
}

int get_global_rank(const Group& group, int rank) {
  if (rank < 0 || rank >= group->size()) {
    fail_value("Group rank " + std::to_string(rank) + " is not part of group of " + std::to_string(group->size()) +
               " ranks");
  }
  return group->ranks()[static_cast<std::size_t>(rank)];
}

Group new_group(const std::vector<int>& given_ranks, std::optional<Milliseconds> timeout) {
  const Group all = default_group();
  std::vector<int> ranks = given_ranks.empty() ? all->ranks() : given_ranks;
  std::string list;
  for (const int rank : ranks) list += (list.empty() ? "" : ", ") + std::to_string(rank);
  if (std::set<int>(ranks.begin(), ranks.end()).size() != ranks.size()) {
    fail_value("ranks list must not contain duplicate entries, got [" + list + "]");
  }
  for (const int rank : ranks) {
    if (rank >= 0 && rank < all->size()) continue;
    fail_value("Rank " + std::to_string(rank) + " is out of range. Valid ranks are 0 to " +
               std::to_string(all->size() - 1) + " (world_size=" + std::to_string(all->size()) + ")");
  }
  std::sort(ranks.begin(), ranks.end());
  const auto place = std::find(ranks.begin(), ranks.end(), all->rank());
  const int rank = place == ranks.end() ? -1 : static_cast<int>(place - ranks.begin());
  const std::string name = std::to_string(++world().groups_made);
  auto store = std::shared_ptr<Store>(all, &all->store());
  return make_group(name, ranks, rank, store, timeout.value_or(all->timeout()));
}

void report_failure(const std::string& text) {
  const World& all = world();
  const bool is_first = !all.watch || !all.watch->event_of(all.group ? all.group->ranks() : std::vector<int>());
  if (all.watch && is_first) all.watch->say_failed(text);
  give_up_mpi();
  const char* path = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (path != nullptr && *path != '\0') write_error_file(path, text);
}

int run_main(const std::function<int()>& body) {
  try {
    const int status = body();
    if (is_initialized()) destroy_process_group();
    return status;
  } catch (const std::exception& error) {
    std::string text = error.what();
    if (const auto* ours = dynamic_cast<const Error*>(&error))
      text = std::string(python_name(ours->code())) + ": " + text;
    report_failure(text);
    std::cerr << error.what() << '\n';
    return 1;
  }
}

}  // namespace core::distributed
