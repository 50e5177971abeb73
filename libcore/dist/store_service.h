#pragma once
// StoreService: what the server of a TcpStore does with the bytes that its clients send, without sockets. It speaks
// PyTorch's protocol (2.15), so that ranks of either kind can share a store. Numbers are little-endian, texts are a u64
// length and bytes; a connection opens with byte 0 and the number 0x3C85F7CE, then each message is an operation's byte
// and its operands (Operation).
// Nothing that arrives is trusted: a key has at most 8 KiB, a value 8 MiB, a message 16 MiB, and all that is held has a
// limit; whoever breaks one is hung up on. Thread safety: none; one thread serves.
// Use: auto id = service.open(); bool stays = service.receive(id, bytes); std::string answer = service.take_output(id);

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "libcore/dist/key_table.h"

namespace core::distributed {

enum class Operation : std::uint8_t {
  validate,
  set,          ///< key, value
  compare_set,  ///< key, expected, desired; answers a value
  get,          ///< key; answers a value
  add,          ///< key, i64; answers i64
  check,        ///< u64 count, keys; answers u8, 0: all there
  wait,         ///< u64 count, keys; answers u8 0 when all are there
  num_keys,     ///< answers i64
  delete_key,   ///< key; answers i64, how many
  append,       ///< key, value
  multi_get,    ///< u64 count, keys; answers the values
  multi_set,    ///< u64 count, keys and values in turn
  cancel_wait,  ///< answers u8 1
  ping,         ///< u32; answers it
};

inline constexpr std::uint32_t kStoreMagic = 0x3C85F7CE;
inline constexpr std::size_t kMaxStoreKey = 8192;
inline constexpr std::size_t kMaxStoreValue = std::size_t{8} << 20;

class StoreService {
 public:
  using Id = std::uint64_t;

  struct Limits {
    std::size_t table_bytes = std::size_t{32} << 20;
    std::size_t message_bytes = std::size_t{16} << 20;
    std::size_t pending_bytes = std::size_t{24} << 20;  ///< half messages, answers not yet sent, keys waited for
    std::size_t keys_of_message = std::size_t{128} << 10;
  };

  StoreService() : StoreService(Limits()) {}
  explicit StoreService(const Limits& limits) : limits_(limits) {}

  Id open();
  void close(Id id);
  /// Does what the bytes ask for. False: hang up on that client.
  bool receive(Id id, std::string_view bytes);
  /// What is to be sent to the client.
  std::string take_output(Id id);
  /// Clients that have output, this one's message has woken others. Emptied by the call.
  std::vector<Id> take_clients_with_output();
  const KeyTable& table() const { return table_; }
  std::size_t clients() const { return clients_.size(); }

 private:
  struct Client {
    std::string input;
    std::string output;
    std::vector<std::string> awaited;  // not there yet
    bool is_valid = false;
  };
  class Reader;
  enum class Outcome { done, incomplete, refused };

  Outcome serve_one(Id id, Client& client, std::string_view& bytes);
  Outcome serve_opening(Client& client, Reader& in);
  Outcome serve_writing(Operation operation, Reader& in, Id id);
  Outcome serve_reading(Operation operation, Reader& in, Id id);
  Outcome serve_keys(Operation operation, Reader& in, Id id);
  Outcome serve_wait(Id id, std::vector<std::string> keys);
  bool has_room(std::size_t more) const;
  void answer(Id id, std::string_view bytes);
  void changed(const std::string& key);
  void forget_wait(Id id);

  Limits limits_;
  KeyTable table_;
  std::unordered_map<Id, Client> clients_;
  std::unordered_map<std::string, std::unordered_set<Id>> waiting_;  // key -> who waits for it
  std::vector<Id> with_output_;
  std::size_t pending_ = 0;
  Id last_id_ = 0;
};

namespace wire {
/// Little-endian bytes of an integer, behind what `out` holds.
template <class T>
void put(std::string& out, T number) {
  for (std::size_t i = 0; i < sizeof number; ++i) {
    out.push_back(static_cast<char>(static_cast<std::uint64_t>(number) >> (8 * i)));
  }
}
template <class T>
T number_at(const char* bytes) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) number |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return static_cast<T>(number);
}
inline void put_text(std::string& out, std::string_view text) {
  put<std::uint64_t>(out, text.size());
  out.append(text);
}
}  // namespace wire

}  // namespace core::distributed
