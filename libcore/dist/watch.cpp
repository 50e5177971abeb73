#include "libcore/dist/watch.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <random>

#include "libcore/base/error.h"
#include "libcore/dist/detail/blocked_signal.h"
#include "libcore/dist/store_service.h"

namespace core::distributed {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kMaxMessage = std::size_t{64} << 10;
constexpr int kTickMilliseconds = 100;
constexpr std::size_t kPositionsKept = 4096;
constexpr char kEndedInOrder[] = "ended";
constexpr char kHubKey[] = "watch/hub";
constexpr char kFacts[] = "watch/facts/";
constexpr char kTwice[] = "watch/twice";      // what the other rank 0 of this group is told
constexpr char kHeard[] = "watch/heard";      // by the other rank 0, which says so
constexpr char kWelcome[] = "watch/welcome";  // a name alone: it comes from rank 0 itself
/// A rank 0 that does not answer may be one of an earlier group: then its key is looked at once more.
constexpr Milliseconds kOneAttempt(5000);
/// For which two processes that are both rank 0 wait for each other.
constexpr Milliseconds kAnswer(3000);
/// How long a rank 0 that has not welcomed anybody is waited for until it is asked whether there is a new one.
constexpr Milliseconds kOneWait(500);
constexpr Milliseconds kRetryPause(20);

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

std::string own_facts() {
  return host_name() + ", process " + std::to_string(::getpid());
}

/// Two processes of one rank: whoever starts them counts wrong, or starts a second training where there is one, and
/// waiting helps none of them.
std::string twice(int rank, const std::string& first, const std::string& second) {
  return "rank " + std::to_string(rank) + " is given to two processes: (" + first + ") and (" + second +
         "). Each process needs a RANK of its own, and each training a port or file of its own";
}

constexpr std::size_t kTokenSize = 32;
std::string make_token() {
  std::random_device source;
  std::string token;
  while (token.size() < kTokenSize) token += "0123456789abcdef"[source() % 16];
  return token;
}

}  // namespace

/// One message: its length as u32, then kind, rank, sequence, and two texts.
struct Watch::Message {
  enum class Kind : std::uint8_t { hello, failed, goodbye, position, gone, welcome, twice };
  Kind kind = Kind::hello;
  int rank = 0;
  std::uint64_t sequence = 0;
  std::string group = {};
  std::string text = {};

  std::string packed() const {
    std::string body(1, static_cast<char>(kind));
    wire::put<std::int32_t>(body, rank);
    wire::put(body, sequence);
    wire::put_text(body, group.substr(0, kMaxMessage / 4));
    wire::put_text(body, text.substr(0, kMaxMessage / 2));
    std::string out;
    wire::put<std::uint32_t>(out, static_cast<std::uint32_t>(body.size()));
    return out + body;
  }
  static std::optional<Message> unpacked(std::string_view body) {
    constexpr std::size_t kFixed = 1 + 4 + 8;
    if (body.size() < kFixed || static_cast<unsigned char>(body[0]) > static_cast<unsigned char>(Kind::twice))
      return {};
    Message message;
    message.kind = static_cast<Kind>(body[0]);
    message.rank = wire::number_at<std::int32_t>(body.data() + 1);
    message.sequence = wire::number_at<std::uint64_t>(body.data() + 5);
    body.remove_prefix(kFixed);
    for (std::string* part : {&message.group, &message.text}) {
      if (body.size() < 8) return {};
      const auto length = wire::number_at<std::uint64_t>(body.data());
      body.remove_prefix(8);
      if (length > body.size()) return {};
      part->assign(body.substr(0, length));
      body.remove_prefix(length);
    }
    return message;
  }
};

Watch::Watch(const Options& options) : options_(options) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw Error(ErrorCode::io, "cannot make a pipe for the watch over other ranks");
  end_here_ = Socket(ends[0]);
  end_there_ = Socket(ends[1]);
  if (options.rank == 0) {
    start_hub();
  } else {
    join_hub();
  }
  {
    const detail::BlockedSignal none;  // they are for the program's own threads
    thread_ = std::thread([this] { run(); });
  }
  try {
    if (options.rank == 0) welcome_all();
    read_facts();
  } catch (...) {
    stop_thread();
    throw;
  }
}

void Watch::start_hub() {
  listener_ = Socket::listen_at(options_.address);
  token_ = make_token();
  say_facts();
  options_.store->set(kHubKey, token_ + std::to_string(listener_.local_port()) + " " + options_.address);
}

void Watch::join_hub() {
  const Deadline deadline = deadline_after(options_.timeout);
  std::string why;
  while (true) {
    // Read anew each time: the store may outlive groups, and then tells of the last one first.
    const std::string hub = options_.store->get(kHubKey);
    std::unique_ptr<Peer> peer = try_to_join(hub, deadline, why);
    if (peer && wait_for_welcome(*peer, hub, deadline)) {
      peers_.push_back(std::move(peer));
      return;
    }
    if (Clock::now() < deadline) {
      std::this_thread::sleep_for(kRetryPause);
      continue;
    }
    if (peer) detail::throw_wait_timeout({kWelcome}, options_.timeout);
    const std::string place = hub.substr(kTokenSize);
    throw Error(ErrorCode::io, "rank " + std::to_string(options_.rank) + " cannot reach rank 0 at port " +
                                   place.substr(0, place.find(' ')) + " of " + place.substr(place.find(' ') + 1) +
                                   ": " + why);
  }
}

/// Nothing where nobody listens there any more.
std::unique_ptr<Watch::Peer> Watch::try_to_join(const std::string& hub, Deadline deadline, std::string& why) {
  const std::size_t space = hub.find(' ', kTokenSize);
  if (hub.size() < kTokenSize + 2 || space == std::string::npos)
    throw Error(ErrorCode::corrupt, "the store's key watch/hub is no address");
  token_ = hub.substr(0, kTokenSize);
  say_facts();
  const int port = std::atoi(hub.substr(kTokenSize, space - kTokenSize).c_str());
  auto peer = std::make_unique<Peer>();
  const Deadline soon = std::min(deadline, deadline_after(kOneAttempt));
  peer->socket = Socket::connect_once(hub.substr(space + 1), static_cast<std::uint16_t>(port), soon, &why);
  peer->rank = 0;
  const Message hello{.kind = Message::Kind::hello, .rank = options_.rank, .group = own_facts(), .text = token_};
  if (!peer->socket.is_open() || !peer->socket.send_all(hello.packed(), deadline)) return nullptr;
  return peer;
}

/// False where rank 0 ends, or wants none of us, before all are there; and where the store names another one by then:
/// who listens where the last one did may be anybody.
bool Watch::wait_for_welcome(Peer& hub, const std::string& said, Deadline deadline) {
  while (true) {
    while (!hub.socket.wait_for_input(std::min(deadline, deadline_after(kOneWait)))) {
      if (Clock::now() >= deadline || !is_still_hub(hub, said)) return false;
    }
    char length[4];
    const Deadline soon = std::min(deadline, deadline_after(kOneAttempt));
    if (!hub.socket.receive_all(length, sizeof length, soon)) return false;
    const std::size_t size = wire::number_at<std::uint32_t>(length);
    if (size > kMaxMessage) return false;
    std::string body(size, '\0');
    if (!hub.socket.receive_all(body.data(), body.size(), soon)) return false;
    const std::optional<Message> message = Message::unpacked(body);
    if (!message) return false;
    if (message->kind == Message::Kind::welcome) return true;
    if (message->kind == Message::Kind::twice) throw Error(ErrorCode::value, message->text);
    obey(*message);
  }
}

/// Whether the store names this rank 0, or that one has said something meanwhile: the store may have ended with it.
bool Watch::is_still_hub(Peer& hub, const std::string& said) {
  try {
    return options_.store->get(kHubKey) == said;
  } catch (const LostStore&) {
    if (hub.socket.wait_for_input(Clock::now())) return true;
    throw;
  }
}

void Watch::welcome_all() {
  std::unique_lock lock(mutex_);
  const Deadline deadline = deadline_after(options_.timeout);
  const auto is_over = [&] { return joined_ == options_.size || !given_twice_.empty(); };
  while (!changed_.wait_until(lock, std::min(deadline, deadline_after(kOneWait)), is_over) && Clock::now() < deadline) {
    lock.unlock();
    check_alone();
    lock.lock();
  }
  is_complete_ = joined_ == options_.size && given_twice_.empty();
  const int joined = joined_;
  const std::string given_twice = given_twice_;
  lock.unlock();
  if (!given_twice.empty()) throw Error(ErrorCode::value, given_twice);
  if (joined != options_.size) {
    throw Error(ErrorCode::io, "Timed out after " + std::to_string(options_.timeout.count() / 1000) +
                                   " seconds waiting for clients. " + std::to_string(joined) + "/" +
                                   std::to_string(options_.size) + " clients joined.");
  }
  options_.all_are_here();
  send({.kind = Message::Kind::welcome});
}

/// Another rank 0 that came later has put itself in the place of this one, or was told so by that one.
void Watch::check_alone() {
  if (store_->check({kTwice})) {
    const std::string said = store_->get(kTwice);
    store_->set(kHeard, "");
    return end_meeting(said);
  }
  const std::string hub = options_.store->get(kHubKey);
  if (hub.starts_with(token_)) return;
  PrefixStore other(hub.substr(0, kTokenSize), options_.store);
  const std::string facts = other.get(kFacts + std::to_string(options_.rank));
  const std::string sentence = twice(options_.rank, own_facts(), facts.substr(0, facts.find('\n')));
  other.set(kTwice, sentence);
  try {  // the store ends with this process
    other.wait({kHeard}, kAnswer);
  } catch (const Error&) {
    // It has ended by itself.
  }
  end_meeting(sentence);
}

void Watch::meet_other_hub(const std::shared_ptr<Store>& store) {
  const std::string token = make_token();
  PrefixStore own(token, store);
  own.set_timeout(kAnswer);
  own.set(std::string(kFacts) + "0", own_facts());
  store->set(kHubKey, token + "0 nowhere");
  const std::string sentence = own.get(kTwice);
  own.set(kHeard, "");
  throw Error(ErrorCode::value, sentence);
}

void Watch::say_facts() {
  store_ = std::make_shared<PrefixStore>(token_, options_.store);
  store_->set(kFacts + std::to_string(options_.rank), own_facts() + "\n" + options_.said);
}

void Watch::read_facts() {
  std::vector<std::string> facts;
  const auto facts_of = [this](int rank) {
    try {
      return store_->get(kFacts + std::to_string(rank));
    } catch (const LostStore& error) {  // which is no rank 0 of an earlier group any more
      throw Error(ErrorCode::io, "rank " + std::to_string(options_.rank) + " of " + std::to_string(options_.size) +
                                     ": rank 0 is gone: " + error.message());
    }
  };
  for (int rank = 0; rank < options_.size; ++rank) {
    const std::string text = facts_of(rank);
    facts.push_back(text.substr(0, text.find('\n')));
    said_.push_back(text.substr(std::min(text.size(), facts.back().size() + 1)));
  }
  const std::lock_guard lock(mutex_);
  facts_ = std::move(facts);
}

void Watch::stop_thread() {
  end_there_.close();
  thread_.join();
}

Watch::~Watch() {
  send({.kind = Message::Kind::goodbye, .rank = options_.rank});
  stop_thread();
}

void Watch::vanish() {
  send({.kind = Message::Kind::gone, .rank = options_.rank, .text = kEndedInOrder});
  const std::lock_guard lock(sending_);
  for (const auto& peer : peers_) {
    if (peer->socket.is_open()) ::shutdown(peer->socket.fd(), SHUT_RDWR);
  }
}

void Watch::send(const Message& message) {
  const std::string bytes = message.packed();
  const std::lock_guard lock(sending_);
  for (const auto& peer : peers_) {
    if (peer->rank >= 0 && peer->socket.is_open()) peer->socket.send_all(bytes, deadline_after(Milliseconds(1000)));
  }
}

void Watch::relay(const Message& message, int from) {
  if (options_.rank != 0) return;
  const std::string bytes = message.packed();
  const std::lock_guard lock(sending_);
  for (const auto& peer : peers_) {
    if (peer->rank < 0 || peer->rank == from || !peer->socket.is_open()) continue;
    peer->socket.send_all(bytes, deadline_after(Milliseconds(1000)));
  }
}

void Watch::say_failed(const std::string& text) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(said_failed_, true)) return;
  }
  send({.kind = Message::Kind::failed, .rank = options_.rank, .text = text});
}

void Watch::say_position(const std::string& group, std::uint64_t sequence, const std::string& fingerprint) {
  send({.kind = Message::Kind::position,
        .rank = options_.rank,
        .sequence = sequence,
        .group = group,
        .text = fingerprint});
}

std::optional<Watch::Event> Watch::event_of(std::span<const int> ranks) const {
  const std::lock_guard lock(mutex_);
  std::optional<Event> first;
  for (const Event& event : events_) {
    if (std::find(ranks.begin(), ranks.end(), event.rank) == ranks.end()) continue;
    if (event.kind == Event::Kind::failed) return event;
    if (!first) first = event;
  }
  return first;
}

bool Watch::has_lost_any() const {
  const std::lock_guard lock(mutex_);
  return std::any_of(events_.begin(), events_.end(), [](const Event& e) {
    return e.kind == Event::Kind::failed || (e.kind == Event::Kind::gone && e.text != kEndedInOrder);
  });
}

std::vector<Watch::Position> Watch::positions(const std::string& group, std::uint64_t sequence) const {
  const std::lock_guard lock(mutex_);
  std::vector<Position> found;
  for (const Position& position : positions_) {
    if (position.group == group && position.sequence == sequence) found.push_back(position);
  }
  return found;
}

std::string Watch::describe(int rank) const {
  const std::lock_guard lock(mutex_);
  const auto at = static_cast<std::size_t>(rank);
  return "rank " + std::to_string(rank) + (at < facts_.size() ? " (" + facts_[at] + ")" : "");
}

std::string Watch::sentence(const Event& event) const {
  switch (event.kind) {
    case Event::Kind::failed:
      return "rank " + std::to_string(event.rank) + " failed first: " + event.text;
    case Event::Kind::left:
      return describe(event.rank) + " has left: it called destroy_process_group";
    default:
      return describe(event.rank) + " is gone";
  }
}

void Watch::set_tick(std::function<void()> tick) {
  const std::lock_guard lock(ticking_);
  tick_ = std::move(tick);
}

void Watch::run() {
  while (true) {
    close_when_complete();
    std::vector<pollfd> all{{end_here_.fd(), POLLIN, 0}, {listener_.fd(), POLLIN, 0}};
    for (const auto& peer : peers_) all.push_back({peer->socket.fd(), POLLIN, 0});
    const std::size_t known = peers_.size();
    if (::poll(all.data(), all.size(), kTickMilliseconds) < 0) continue;
    if (all[0].revents != 0) return;
    for (std::size_t i = 0; i < known; ++i) {
      if (all[i + 2].revents != 0 && !read_peer(*peers_[i])) lose(*peers_[i]);
    }
    if (all[1].revents != 0) accept_peer();
    const std::lock_guard lock(ticking_);
    if (tick_) tick_();
  }
}

void Watch::close_when_complete() {
  const std::lock_guard lock(mutex_);
  if (is_complete_) listener_.close();
}

void Watch::accept_peer() {
  auto peer = std::make_unique<Peer>();
  peer->socket = listener_.accept();
  if (!peer->socket.is_open()) {
    // No descriptor is left: the caller waits until one is, this thread does not spin.
    ::poll(nullptr, 0, 10);
    return;
  }
  const std::lock_guard lock(sending_);
  std::erase_if(peers_, [](const auto& each) { return !each->socket.is_open(); });
  peers_.push_back(std::move(peer));
}

bool Watch::read_peer(Peer& peer) {
  char bytes[4096];
  const std::ptrdiff_t n = peer.socket.receive_some(bytes, sizeof bytes);
  if (n <= 0) return n == 0;
  peer.input.append(bytes, static_cast<std::size_t>(n));
  while (peer.input.size() >= 4) {
    const std::size_t length = wire::number_at<std::uint32_t>(peer.input.data());
    if (length > kMaxMessage) return false;
    if (peer.input.size() < 4 + length) return true;
    if (!take_message(peer)) return false;
    peer.input.erase(0, 4 + length);
  }
  return true;
}

bool Watch::take_message(Peer& peer) {
  const std::size_t length = wire::number_at<std::uint32_t>(peer.input.data());
  const std::optional<Message> message = Message::unpacked(std::string_view(peer.input).substr(4, length));
  if (!message || message->rank < 0 || message->rank >= options_.size) return false;
  if (peer.rank < 0) return take_hello(peer, *message);
  if (options_.rank == 0 && message->rank != peer.rank) return false;
  obey(*message);
  relay(*message, peer.rank);
  return true;
}

/// A stranger has to know the token, and to come in time.
bool Watch::take_hello(Peer& peer, const Message& message) {
  if (message.kind != Message::Kind::hello || message.text != token_) return false;
  const std::scoped_lock lock(sending_, mutex_);
  if (is_complete_) return false;
  const auto same =
      std::find_if(peers_.begin(), peers_.end(), [&](const auto& each) { return each->rank == message.rank; });
  if (same != peers_.end()) {
    refuse_second(peer, **same, message.group);
    return false;
  }
  peer.rank = message.rank;
  peer.facts = message.group;
  ++joined_;
  changed_.notify_all();
  return true;
}

/// Unless it is the same process once more, or the first one has ended and that is not noticed yet: then it may come
/// again. All that are here hear of it, and rank 0 waits no longer.
void Watch::refuse_second(const Peer& second, const Peer& first, const std::string& facts) {
  char next = 0;
  const bool has_ended = ::recv(first.socket.fd(), &next, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
  if (has_ended || facts.empty() || first.facts == facts || !given_twice_.empty()) return;
  tell_twice(twice(first.rank, first.facts, facts), &second);
}

void Watch::end_meeting(const std::string& sentence) {
  const std::scoped_lock lock(sending_, mutex_);
  tell_twice(sentence, nullptr);
}

// REQUIRES: both are locked.
void Watch::tell_twice(const std::string& sentence, const Peer* also) {
  given_twice_ = sentence;
  const std::string bytes = Message{.kind = Message::Kind::twice, .text = sentence}.packed();
  for (const auto& peer : peers_) {
    if ((peer->rank >= 0 || peer.get() == also) && peer->socket.is_open())
      peer->socket.send_all(bytes, deadline_after(Milliseconds(1000)));
  }
  changed_.notify_all();
}

void Watch::obey(const Message& message) {
  switch (message.kind) {
    case Message::Kind::failed:
      return add_event({Event::Kind::failed, message.rank, message.text});
    case Message::Kind::goodbye:
      return add_event({Event::Kind::left, message.rank});
    case Message::Kind::gone:
      return add_event({Event::Kind::gone, message.rank, message.text});
    case Message::Kind::position: {
      const std::lock_guard lock(mutex_);
      if (positions_.size() >= kPositionsKept) positions_.erase(positions_.begin());
      positions_.push_back({message.rank, message.group, message.sequence, message.text});
      return;
    }
    case Message::Kind::hello:
    case Message::Kind::welcome:
    case Message::Kind::twice:
      return;
  }
}

void Watch::lose(Peer& peer) {
  {
    const std::lock_guard lock(sending_);
    peer.socket.close();
  }
  if (peer.rank < 0) return;
  {
    const std::scoped_lock lock(sending_, mutex_);
    if (options_.rank == 0 && !is_complete_) {  // another may come in its place
      peer.rank = -1;
      --joined_;
      return;
    }
  }
  add_event({Event::Kind::gone, peer.rank});
  relay({.kind = Message::Kind::gone, .rank = peer.rank}, peer.rank);
}

void Watch::add_event(Event event) {
  const std::lock_guard lock(mutex_);
  // The end of the connection follows on a goodbye, and on an error.
  const auto same = std::find_if(events_.begin(), events_.end(), [&](const Event& e) { return e.rank == event.rank; });
  if (same != events_.end() && event.kind == Event::Kind::gone) return;
  event.when = Clock::now();
  events_.push_back(std::move(event));
  changed_.notify_all();
}

}  // namespace core::distributed
