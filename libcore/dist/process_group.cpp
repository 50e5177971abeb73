#include "libcore/dist/process_group.h"

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "libcore/backend/device_registry.h"
#include "libcore/backend/graph_capture.h"
#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/dist/detail/blocked_signal.h"

namespace core::distributed {
namespace {

using Clock = std::chrono::steady_clock;
/// As PyTorch: a second collective may begin while the first is under way.
constexpr int kThreads = 2;
/// After so long a wait others are told what is waited in.
constexpr Milliseconds kPatience(2000);
/// Calls of one lane begin in order; each lane has threads of its own. On GPUs messages to a rank and from a rank have
/// one each, so that none of them keeps another from beginning.
constexpr int kHostLane = 0;
constexpr int kDeviceLane = 1;
constexpr int kFirstMessageLane = 2;

int lane_of(const Request& request) {
  if (!request.device) return kHostLane;
  return request.is_message ? kFirstMessageLane + 2 * request.peer + (request.is_send ? 1 : 0) : kDeviceLane;
}

}  // namespace

struct ProcessGroup::Job {
  Request request;
  int lane = kHostLane;
  std::optional<cuda::Event> after = {};  // in the caller's stream
  std::uint64_t sequence = 0;
  Milliseconds timeout{};
  std::shared_ptr<detail::WorkState> work = std::make_shared<detail::WorkState>();
  Clock::time_point started = Clock::now();
  std::optional<Clock::time_point> running_since = {};  // under the mutex of Shared
  bool told = false;                                    // others, what it waits in; the watch's thread alone
};

/// What the threads hold, so that one that is caught in the engine needs no group.
struct ProcessGroup::Shared {
  explicit Shared(Parts its_parts) : parts(std::move(its_parts)) {}

  Parts parts;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::shared_ptr<Job>> queue;
  std::vector<std::shared_ptr<Job>> under_way;  // queued or running
  bool stops = false;
  std::string broken_by;                             // why the group works no more
  std::set<int> lanes;                               // that have threads
  std::vector<std::pair<int, std::thread>> threads;  // with the lane of each
  std::once_flag device_engine_asked;
  std::unique_ptr<Engine> device_engine;
  std::optional<Device> used;  // the GPU, last

  Engine* engine_for_device() {
    std::call_once(device_engine_asked, [this] {
      if (parts.make_device_engine) device_engine = parts.make_device_engine();
    });
    return device_engine.get();
  }
  Engine& engine_of(const Job& job) { return job.lane == kHostLane ? *parts.engine : *device_engine; }
  /// The threads of a lane; under the mutex.
  static void open_lane(const std::shared_ptr<Shared>& shared, int lane) {
    if (!shared->lanes.insert(lane).second) return;
    const detail::BlockedSignal no_pipe(SIGPIPE);  // the threads inherit it
    for (int i = 0; i < (lane == kHostLane ? kThreads : 1); ++i)
      shared->threads.emplace_back(lane, std::thread([shared, lane] { shared->run(lane); }));
  }

  std::shared_ptr<Job> next(int lane) {
    std::unique_lock lock(mutex);
    auto first = queue.end();
    changed.wait(lock, [&] {
      first = std::find_if(queue.begin(), queue.end(), [&](const auto& job) { return job->lane == lane; });
      return stops || first != queue.end();
    });
    if (first == queue.end()) return nullptr;
    std::shared_ptr<Job> job = std::move(*first);
    queue.erase(first);
    job->running_since = Clock::now();
    return job;
  }
  static Call call_of(const Job& job) {
    const Request& request = job.request;
    return {.tag = request.is_message ? request.message_tag : request.fingerprint.tag(job.sequence),
            .timeout = job.timeout,
            .has_ended = [work = job.work] { return work->has_ended(); },
            .device = request.device.value_or(Device()),
            .after = job.after,
            .factor = request.factor};
  }
  void run(int lane) {
    while (const std::shared_ptr<Job> job = next(lane)) {
      std::exception_ptr error;
      try {
        if (!job->work->has_ended()) job->request.run(engine_of(*job), call_of(*job));
      } catch (const std::exception& engine_error) {
        if (engine_of(*job).may_keep_memory()) keep(job);
        error = explained(*job, engine_error.what());
      }
      end(job, error);
    }
  }
  /// For the rest of the process.
  static void keep(const std::shared_ptr<Job>& job) {
    static auto& kept = *new std::deque<std::shared_ptr<Job>>;
    static auto& mutex = *new std::mutex;
    const std::lock_guard lock(mutex);
    kept.push_back(job);
  }
  void end(const std::shared_ptr<Job>& job, const std::exception_ptr& error) {
    if (error) {
      engine_of(*job).note_failure();
      const std::lock_guard lock(mutex);
      if (broken_by.empty()) broken_by = text_of(error);
    }
    job->work->end(error);
    const std::lock_guard lock(mutex);
    std::erase(under_way, job);
  }
  static std::string text_of(const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& e) {
      return e.what();
    }
  }

  /// Ranks of the default group that this one can wait for.
  std::vector<int> others() const {
    std::vector<int> found = parts.ranks;
    std::erase(found, parts.ranks[static_cast<std::size_t>(parts.rank)]);
    return found;
  }
  std::string title(const Job& job) const {
    std::string text =
        "rank " + std::to_string(parts.rank) + " of " + std::to_string(parts.ranks.size()) + ": " + job.request.what;
    if (!job.request.is_message) text += " number " + std::to_string(job.sequence);
    const std::string brief = job.request.fingerprint.brief();
    const std::string& label = job.request.label;
    if (!brief.empty()) text += " (" + brief + (label.empty() ? "" : ", " + label) + ")";
    return text;
  }

  std::exception_ptr explained(const Job& job, const std::string& reason) const;
  std::exception_ptr by_event(const Job& job) const;
  std::exception_ptr by_mismatch(const Job& job) const;
  std::exception_ptr by_destruction(const Job& job) const {
    return std::make_exception_ptr(
        Error(ErrorCode::runtime, title(job) + ": the group was destroyed after an error before it had ended"));
  }
  std::string absent_ranks(const Job& job) const;
  void look_after(const std::shared_ptr<Job>& job);
};

std::exception_ptr ProcessGroup::Shared::by_event(const Job& job) const {
  if (!parts.watch) return nullptr;
  const std::optional<Watch::Event> event = parts.watch->event_of(others());
  if (!event) return nullptr;
  return std::make_exception_ptr(Error(ErrorCode::runtime, title(job) + ": " + parts.watch->sentence(*event)));
}

std::exception_ptr ProcessGroup::Shared::by_mismatch(const Job& job) const {
  if (!parts.watch || job.request.is_message) return nullptr;
  const Fingerprint& ours = job.request.fingerprint;
  for (const Watch::Position& position : parts.watch->positions(parts.name, job.sequence)) {
    const Fingerprint theirs = Fingerprint::parsed(position.fingerprint);
    const std::string difference = ours.difference(theirs);
    if (difference.empty()) continue;
    const int own = parts.ranks[static_cast<std::size_t>(parts.rank)];
    return std::make_exception_ptr(Error(
        ErrorCode::runtime, "Detected mismatch between collectives on ranks. Rank " + std::to_string(own) +
                                " is running collective: " + ours.str(job.sequence) + ", but Rank " +
                                std::to_string(position.rank) + " is running collective: " + theirs.str(job.sequence) +
                                ".Collectives differ in the following aspects: " + difference));
  }
  return nullptr;
}

std::string ProcessGroup::Shared::absent_ranks(const Job& job) const {
  if (!parts.watch || job.request.is_message) return {};
  std::vector<int> absent = others();
  for (const Watch::Position& position : parts.watch->positions(parts.name, job.sequence)) {
    std::erase(absent, position.rank);
  }
  if (absent.empty()) return {};
  std::string text = ": ";
  for (std::size_t i = 0; i < absent.size() && i < 8; ++i)
    text += (i == 0 ? "" : ", ") + parts.watch->describe(absent[i]);
  if (absent.size() > 8) text += " and " + std::to_string(absent.size() - 8) + " more";
  return text + (absent.size() == 1 ? " has" : " have") + " not called it, or cannot be reached";
}

std::exception_ptr ProcessGroup::Shared::explained(const Job& job, const std::string& reason) const {
  const bool timed_out = reason.find("imed out") != std::string::npos;
  // Who is to blame is on its way: the news takes another road than the broken connection.
  for (const auto until = Clock::now() + Watch::kGrace; parts.watch;) {
    if (std::exception_ptr error = by_event(job)) return error;
    if (timed_out || Clock::now() >= until) break;
    std::this_thread::sleep_for(Milliseconds(10));
  }
  if (std::exception_ptr error = by_mismatch(job)) return error;
  const std::string text =
      timed_out ? "Timed out waiting " + std::to_string(job.timeout.count()) + "ms" + absent_ranks(job) : reason;
  return std::make_exception_ptr(Error(ErrorCode::runtime, title(job) + ": " + text));
}

void ProcessGroup::Shared::look_after(const std::shared_ptr<Job>& job) {
  const Clock::time_point now = Clock::now();
  if (const auto event = parts.watch->event_of(others()); event && now - event->when >= Watch::kGrace) {
    return end(job, by_event(*job));
  }
  std::optional<Clock::time_point> since;
  {
    const std::lock_guard lock(mutex);
    since = job->running_since;
  }
  if (since && now - *since > job->timeout + Milliseconds(1000)) return end(job, explained(*job, "timed out"));
  if (job->request.is_message) return;
  if (!job->told && now - job->started >= std::min(kPatience, job->timeout / 4)) {
    job->told = true;
    parts.watch->say_position(parts.name, job->sequence, job->request.fingerprint.packed());
  }
  if (!job->told) return;
  if (const std::exception_ptr error = by_mismatch(*job)) end(job, error);
}

ProcessGroup::ProcessGroup(Parts parts) : parts_(parts_of(parts)), shared_(std::make_shared<Shared>(std::move(parts))) {
  if (shared_->parts.engine) host_engine_ = shared_->parts.engine->name();
  backend_ = parts_.backend.empty() ? host_engine_ : parts_.backend;
  if (!shared_->parts.engine) return;
  const std::lock_guard lock(shared_->mutex);
  Shared::open_lane(shared_, kHostLane);
}

bool ProcessGroup::exchanges_on(Device device) const {
  if (device.is_cpu()) {
    if (host_engine_.empty()) core::detail::fail("No backend type associated with device type cpu");
    return false;
  }
  if (shared_->engine_for_device() != nullptr) return true;
  if (!parts_.through_host) core::detail::fail("No backend type associated with device type cuda");
  return false;
}

Device ProcessGroup::own_device() const {
  if (!host_engine_.empty() || parts_.rank < 0) return DeviceType::cpu;
  {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->used) return *shared_->used;
  }
  const int chosen = cuda::current_device();
  return {DeviceType::cuda, chosen != 0 ? chosen : static_cast<int>(parts_.local_rank % cuda::device_count())};
}

ProcessGroup::Parts ProcessGroup::parts_of(const Parts& all) {
  return {.name = all.name,
          .ranks = all.ranks,
          .rank = all.rank,
          .engine = nullptr,
          .through_host = all.through_host,
          .backend = all.backend,
          .local_rank = all.local_rank,
          .store = all.store,
          .watch = all.watch,
          .timeout = all.timeout};
}

ProcessGroup::~ProcessGroup() {
  bool is_broken = false;
  std::vector<std::shared_ptr<Job>> left;
  std::vector<std::pair<int, std::thread>> threads;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stops = true;
    threads = std::move(shared_->threads);
    is_broken = !shared_->broken_by.empty();
    if (is_broken) left = shared_->under_way;
    shared_->changed.notify_all();
  }
  // What nobody will come to any more would be waited for until its time-out.
  for (const std::shared_ptr<Job>& job : left) shared_->end(job, shared_->by_destruction(*job));
  const Engine* host = shared_->parts.engine.get();
  for (auto& [lane, thread] : threads) {
    // A thread that waits in the engine for a rank that will not come keeps what it needs; that of GPUs gives up soon.
    if (is_broken && lane == kHostLane && !host->may_keep_memory()) {
      thread.detach();
    } else {
      thread.join();
    }
  }
}

int ProcessGroup::rank_of(int global_rank) const {
  const auto found = std::find(parts_.ranks.begin(), parts_.ranks.end(), global_rank);
  return found == parts_.ranks.end() ? -1 : static_cast<int>(found - parts_.ranks.begin());
}

Work ProcessGroup::start(Request request) {
  auto job = std::make_shared<Job>();
  job->timeout = request.timeout.value_or(parts_.timeout);
  if (request.finish) job->work->set_finish(std::move(request.finish));
  job->request = std::move(request);
  job->lane = lane_of(job->request);
  if (const std::optional<Device>& device = job->request.device) {
    if (GraphCapture::any()) {
      core::detail::fail(job->request.what + " over NCCL while a CUDA graph is captured: a graph cannot keep it");
    }
    job->after.emplace().record(cuda::current_stream(*device));
  }
  const std::lock_guard lock(shared_->mutex);
  if (!job->request.is_message) job->sequence = sequence_++;
  if (!shared_->broken_by.empty()) {
    throw Error(ErrorCode::runtime,
                shared_->title(*job) + ": the group works no more since an error: " + shared_->broken_by);
  }
  if (job->request.device) shared_->used = job->request.device;
  Shared::open_lane(shared_, job->lane);
  shared_->queue.push_back(job);
  shared_->under_way.push_back(job);
  shared_->changed.notify_all();  // each thread waits for its own lane
  return Work(job->work);
}

std::function<bool()> ProcessGroup::caretaker() const {
  // Not the group itself: whoever drops it last waits for its threads, and the watch must not.
  return [weak = std::weak_ptr<Shared>(shared_)] {
    const std::shared_ptr<Shared> shared = weak.lock();
    if (!shared) return false;
    std::vector<std::shared_ptr<Job>> jobs;
    {
      const std::lock_guard lock(shared->mutex);
      jobs = shared->under_way;
    }
    for (const auto& job : jobs) shared->look_after(job);
    return true;
  };
}

}  // namespace core::distributed
