#include "libcore/dist/store_service.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace core::distributed {
namespace {
/// About what waiting for a key takes beside its text.
constexpr std::size_t kWaitBytes = 128;
}  // namespace

/// The operands of one message. After any of them was missing or too long, nothing more is read.
class StoreService::Reader {
 public:
  Reader(std::string_view bytes, const Limits& limits) : all_(bytes), rest_(bytes), limits_(limits) {}

  template <class T>
  T number() {
    if (rest_.size() < sizeof(T)) return fail<T>(Outcome::incomplete);
    const T value = wire::number_at<T>(rest_.data());
    rest_.remove_prefix(sizeof(T));
    return value;
  }
  std::string key() { return text(kMaxStoreKey); }
  std::string value() { return text(kMaxStoreValue); }
  std::vector<std::string> keys() {
    const auto count = number<std::uint64_t>();
    if (count > limits_.keys_of_message) fail<int>(Outcome::refused);
    std::vector<std::string> found;
    for (std::uint64_t i = 0; i < count && is_good(); ++i) found.push_back(key());
    return found;
  }

  bool is_good() const { return outcome_ == Outcome::done; }
  Outcome outcome() const { return outcome_; }
  std::size_t used() const { return all_.size() - rest_.size(); }
  const Limits& limits() const { return limits_; }
  void refuse() { outcome_ = Outcome::refused; }

 private:
  std::string text(std::size_t limit) {
    const auto length = number<std::uint64_t>();
    if (!is_good()) return {};
    if (length > limit || used() + length > limits_.message_bytes) return fail<std::string>(Outcome::refused);
    if (rest_.size() < length) return fail<std::string>(Outcome::incomplete);
    std::string found(rest_.substr(0, length));
    rest_.remove_prefix(length);
    return found;
  }
  template <class T>
  T fail(Outcome outcome) {
    if (is_good()) outcome_ = outcome;
    rest_ = rest_.substr(rest_.size());
    return T{};
  }

  std::string_view all_;
  std::string_view rest_;
  const Limits& limits_;
  Outcome outcome_ = Outcome::done;
};

StoreService::Id StoreService::open() {
  clients_.try_emplace(++last_id_);
  return last_id_;
}

void StoreService::close(Id id) {
  const auto found = clients_.find(id);
  if (found == clients_.end()) return;
  forget_wait(id);
  pending_ -= found->second.input.size() + found->second.output.size();
  clients_.erase(found);
}

bool StoreService::receive(Id id, std::string_view bytes) {
  const auto found = clients_.find(id);
  if (found == clients_.end()) return false;
  Client& client = found->second;
  pending_ += bytes.size();
  client.input.append(bytes);
  std::string_view rest = client.input;
  Outcome outcome = Outcome::done;
  while (outcome == Outcome::done && !rest.empty()) outcome = serve_one(id, client, rest);
  const std::size_t used = client.input.size() - rest.size();
  pending_ -= used;
  client.input.erase(0, used);
  return outcome != Outcome::refused && pending_ <= limits_.pending_bytes;
}

std::string StoreService::take_output(Id id) {
  const auto found = clients_.find(id);
  if (found == clients_.end()) return {};
  pending_ -= found->second.output.size();
  return std::exchange(found->second.output, {});
}

std::vector<StoreService::Id> StoreService::take_clients_with_output() {
  return std::exchange(with_output_, {});
}

StoreService::Outcome StoreService::serve_one(Id id, Client& client, std::string_view& bytes) {
  Reader in(bytes, limits_);
  const auto operation = static_cast<Operation>(in.number<std::uint8_t>());
  Outcome outcome = Outcome::refused;
  if (!client.is_valid || operation == Operation::validate) {
    outcome = operation == Operation::validate ? serve_opening(client, in) : Outcome::refused;
  } else if (operation == Operation::set || operation == Operation::append || operation == Operation::multi_set ||
             operation == Operation::delete_key || operation == Operation::add || operation == Operation::compare_set) {
    outcome = serve_writing(operation, in, id);
  } else if (operation == Operation::check || operation == Operation::wait || operation == Operation::multi_get) {
    outcome = serve_keys(operation, in, id);
  } else {
    outcome = serve_reading(operation, in, id);
  }
  if (outcome == Outcome::done) bytes.remove_prefix(in.used());
  const bool too_long = outcome == Outcome::incomplete && bytes.size() > limits_.message_bytes;
  return too_long || pending_ > limits_.pending_bytes ? Outcome::refused : outcome;
}

StoreService::Outcome StoreService::serve_opening(Client& client, Reader& in) {
  const auto magic = in.number<std::uint32_t>();
  if (!in.is_good()) return in.outcome();
  client.is_valid = magic == kStoreMagic;
  return client.is_valid ? Outcome::done : Outcome::refused;
}

StoreService::Outcome StoreService::serve_writing(Operation operation, Reader& in, Id id) {
  if (operation == Operation::multi_set) {
    const auto count = in.number<std::uint64_t>();
    if (count > limits_.keys_of_message) return Outcome::refused;
    std::vector<std::pair<std::string, std::string>> all;
    for (std::uint64_t i = 0; i < count && in.is_good(); ++i) {
      std::string key = in.key();
      all.emplace_back(std::move(key), in.value());
    }
    if (!in.is_good()) return in.outcome();
    if (!has_room(in.used())) return Outcome::refused;
    for (auto& [key, value] : all) {
      table_.set(key, std::move(value));
      changed(key);
    }
    return Outcome::done;
  }
  const std::string key = in.key();
  std::string reply;
  if (operation == Operation::add) {
    const auto amount = in.number<std::int64_t>();
    if (!in.is_good()) return in.outcome();
    const std::optional<std::int64_t> sum = has_room(in.used()) ? table_.add(key, amount) : std::nullopt;
    if (!sum) return Outcome::refused;
    wire::put(reply, *sum);
  } else if (operation == Operation::delete_key) {
    if (!in.is_good()) return in.outcome();
    wire::put<std::int64_t>(reply, table_.erase(key) ? 1 : 0);
  } else {
    std::string first = in.value();
    const std::string second = operation == Operation::compare_set ? in.value() : std::string();
    if (!in.is_good()) return in.outcome();
    if (!has_room(in.used())) return Outcome::refused;
    if (operation == Operation::compare_set) wire::put_text(reply, table_.compare_set(key, first, second));
    if (operation == Operation::set) table_.set(key, std::move(first));
    if (operation == Operation::append) {
      const std::string* held = table_.find(key);
      if (held != nullptr && held->size() + first.size() > kMaxStoreValue) return Outcome::refused;
      table_.append(key, first);
    }
  }
  answer(id, reply);
  if (operation != Operation::delete_key) changed(key);
  return Outcome::done;
}

StoreService::Outcome StoreService::serve_reading(Operation operation, Reader& in, Id id) {
  std::string reply;
  switch (operation) {
    case Operation::get: {
      const std::string key = in.key();
      if (!in.is_good()) return in.outcome();
      const std::string* held = table_.find(key);
      wire::put_text(reply, held == nullptr ? std::string_view() : std::string_view(*held));
      break;
    }
    case Operation::num_keys:
      wire::put(reply, static_cast<std::int64_t>(table_.size()));
      break;
    case Operation::cancel_wait:
      forget_wait(id);
      wire::put<std::uint8_t>(reply, 1);
      break;
    case Operation::ping: {
      const auto number = in.number<std::uint32_t>();
      if (!in.is_good()) return in.outcome();
      wire::put(reply, number);
      break;
    }
    default:
      return Outcome::refused;
  }
  answer(id, reply);
  return Outcome::done;
}

StoreService::Outcome StoreService::serve_keys(Operation operation, Reader& in, Id id) {
  std::vector<std::string> keys = in.keys();
  if (!in.is_good()) return in.outcome();
  if (operation == Operation::wait) return serve_wait(id, std::move(keys));
  std::string reply;
  if (operation == Operation::check) {
    wire::put<std::uint8_t>(reply, table_.contains_all(keys) ? 0 : 1);
  } else {
    for (const std::string& key : keys) {
      const std::string* held = table_.find(key);
      wire::put_text(reply, held == nullptr ? std::string_view() : std::string_view(*held));
      if (pending_ + reply.size() > limits_.pending_bytes) return Outcome::refused;
    }
  }
  answer(id, reply);
  return Outcome::done;
}

StoreService::Outcome StoreService::serve_wait(Id id, std::vector<std::string> keys) {
  Client& client = clients_.at(id);
  if (!client.awaited.empty()) return Outcome::refused;  // one wait at a time
  std::erase_if(keys, [&](const std::string& key) { return table_.contains(key); });
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  if (keys.empty()) {
    answer(id, std::string_view("\0", 1));
    return Outcome::done;
  }
  for (const std::string& key : keys) {
    waiting_[key].insert(id);
    pending_ += key.size() + kWaitBytes;
  }
  client.awaited = std::move(keys);
  return Outcome::done;
}

bool StoreService::has_room(std::size_t more) const {
  return table_.bytes() + more + KeyTable::kNodeBytes <= limits_.table_bytes;
}

void StoreService::answer(Id id, std::string_view bytes) {
  if (bytes.empty()) return;
  Client& client = clients_.at(id);
  if (client.output.empty()) with_output_.push_back(id);
  client.output.append(bytes);
  pending_ += bytes.size();
}

void StoreService::changed(const std::string& key) {
  const auto found = waiting_.find(key);
  if (found == waiting_.end()) return;
  const std::unordered_set<Id> ids = std::move(found->second);
  waiting_.erase(found);
  for (const Id id : ids) {
    pending_ -= key.size() + kWaitBytes;
    std::vector<std::string>& awaited = clients_.at(id).awaited;
    std::erase(awaited, key);
    if (awaited.empty()) answer(id, std::string_view("\0", 1));
  }
}

void StoreService::forget_wait(Id id) {
  std::vector<std::string>& awaited = clients_.at(id).awaited;
  for (const std::string& key : awaited) {
    pending_ -= key.size() + kWaitBytes;
    const auto found = waiting_.find(key);
    if (found == waiting_.end()) continue;
    found->second.erase(id);
    if (found->second.empty()) waiting_.erase(found);
  }
  awaited.clear();
}

}  // namespace core::distributed
