// The server of the store against bytes of every kind: right ones byte by byte, and hostile ones.
#include "libcore/dist/store_service.h"

#include <sys/resource.h>

#include <random>

namespace {

using namespace core::distributed;

std::string opening() {
  std::string out(1, '\0');
  wire::put(out, kStoreMagic);
  return out;
}
std::string text(std::string_view value) {
  std::string out;
  wire::put_text(out, value);
  return out;
}
template <class T>
std::string number(T value) {
  std::string out;
  wire::put(out, value);
  return out;
}
std::string op(Operation operation) {
  return std::string(1, static_cast<char>(operation));
}

/// A client that has said who it is.
StoreService::Id joined(StoreService& service) {
  const auto id = service.open();
  EXPECT_TRUE(service.receive(id, opening()));
  return id;
}

TEST(StoreService, AnswersAsPyTorchsServer) {
  // Bytes of store_raw.py, which a server of torch 2.15 answered so.
  StoreService service;
  const auto id = joined(service);
  EXPECT_TRUE(service.receive(id, std::string("\x0d\x39\x30\0\0", 5)));
  EXPECT_EQ(service.take_output(id), std::string("\x39\x30\0\0", 4));
  EXPECT_TRUE(service.receive(id, "\x01" + text("/k") + text("hello")));
  EXPECT_EQ(service.take_output(id), "");
  EXPECT_TRUE(service.receive(id, "\x06" + number<std::uint64_t>(1) + text("/k")));
  EXPECT_EQ(service.take_output(id), std::string(1, '\0'));
  EXPECT_TRUE(service.receive(id, "\x03" + text("/k")));
  EXPECT_EQ(service.take_output(id), text("hello"));
  EXPECT_TRUE(service.receive(id, "\x04" + text("/c") + number<std::int64_t>(3)));
  EXPECT_EQ(service.take_output(id), number<std::int64_t>(3));
  EXPECT_TRUE(service.receive(id, "\x05" + number<std::uint64_t>(1) + text("/nope")));
  EXPECT_EQ(service.take_output(id), "\x01");
  EXPECT_TRUE(service.receive(id, "\x07"));
  EXPECT_EQ(service.take_output(id), number<std::int64_t>(2));
  EXPECT_TRUE(service.receive(id, "\x02" + text("/k") + text("hello") + text("bye")));
  EXPECT_EQ(service.take_output(id), text("bye"));
  EXPECT_TRUE(service.receive(id, "\x08" + text("/k")));
  EXPECT_EQ(service.take_output(id), number<std::int64_t>(1));
  EXPECT_TRUE(service.receive(id, "\x0b" + number<std::uint64_t>(2) + text("/a") + text("1") + text("/b") + text("2")));
  EXPECT_TRUE(service.receive(id, "\x09" + text("/a") + text("x")));
  EXPECT_TRUE(service.receive(id, "\x0a" + number<std::uint64_t>(2) + text("/a") + text("/b")));
  EXPECT_EQ(service.take_output(id), text("1x") + text("2"));
}

TEST(StoreService, TakesAMessageInAnyPieces) {
  const std::string talk = opening() + "\x01" + text("/key") + text("value") + "\x04" + text("/n") +
                           number<std::int64_t>(7) + "\x03" + text("/key");
  for (std::size_t first = 0; first <= talk.size(); ++first) {
    StoreService service;
    const auto id = service.open();
    EXPECT_TRUE(service.receive(id, talk.substr(0, first)));
    EXPECT_TRUE(service.receive(id, talk.substr(first)));
    EXPECT_EQ(service.take_output(id), number<std::int64_t>(7) + text("value")) << first;
  }
}

TEST(StoreService, WakesWhoWaitsWhenAllKeysAreThere) {
  StoreService service;
  const auto waiter = joined(service);
  const auto setter = joined(service);
  EXPECT_TRUE(service.receive(waiter, op(Operation::wait) + number<std::uint64_t>(2) + text("/a") + text("/b")));
  EXPECT_TRUE(service.receive(setter, op(Operation::set) + text("/a") + text("")));
  EXPECT_EQ(service.take_output(waiter), "");
  EXPECT_TRUE(service.receive(setter, op(Operation::add) + text("/b") + number<std::int64_t>(1)));
  EXPECT_EQ(service.take_output(waiter), std::string(1, '\0'));
}

TEST(StoreService, ForgetsAWaitThatIsCancelled) {
  StoreService service;
  const auto id = joined(service);
  EXPECT_TRUE(service.receive(id, op(Operation::wait) + number<std::uint64_t>(1) + text("/a")));
  EXPECT_TRUE(service.receive(id, op(Operation::cancel_wait)));
  EXPECT_EQ(service.take_output(id), "\x01");
  EXPECT_TRUE(service.receive(id, op(Operation::set) + text("/a") + text("v")));
  EXPECT_EQ(service.take_output(id), "");
}

TEST(StoreService, HangsUpOnWhoeverBreaksARule) {
  const std::uint64_t huge = std::uint64_t{1} << 62;
  const std::string broken[] = {
      std::string("\0\1\0\0\0", 5),                                                                 // another magic
      "\x07",                                                                                       // no opening
      opening() + "\x01" + number(huge),                                                            // a key of 4 EiB
      opening() + "\x01" + number<std::uint64_t>(kMaxStoreKey + 1),                                 // a key too long
      opening() + "\x01" + text("/k") + number<std::uint64_t>(kMaxStoreValue + 1),                  // a value too long
      opening() + "\x05" + number(huge),                                                            // 4 * 10^18 keys
      opening() + "\x0b" + number(huge),                                                            //
      opening() + "\x63",                                                                           // no such operation
      opening() + "\x01" + text("/k") + text("v") + "\x04" + text("/k") + number<std::int64_t>(1),  // no number
      opening() + "\x06" + number<std::uint64_t>(1) + text("/a") + "\x06" + number<std::uint64_t>(1) + text("/b"),
  };
  for (const std::string& bytes : broken) {
    StoreService service;
    EXPECT_FALSE(service.receive(service.open(), bytes)) << testing::PrintToString(bytes);
  }
}

TEST(StoreService, HoldsNoMoreThanItMay) {
  StoreService service({.table_bytes = 100'000, .message_bytes = 50'000, .pending_bytes = 60'000});
  const auto id = joined(service);
  int accepted = 0;
  for (int i = 0; i < 100; ++i) {
    const std::string key = "/" + std::to_string(i);
    if (!service.receive(id, op(Operation::set) + text(key) + text(std::string(4000, 'x')))) break;
    ++accepted;
  }
  EXPECT_GT(accepted, 15);
  EXPECT_LT(accepted, 26);
  const auto greedy = joined(service);
  bool stays = true;
  for (int i = 0; i < 100 && stays; ++i) stays = service.receive(greedy, op(Operation::get) + text("/1"));
  EXPECT_FALSE(stays);  // never takes its answers
}

/// Random messages of right, wrong and cut forms from several clients at once.
class Hostile {
 public:
  explicit Hostile(unsigned seed) : random_(seed) {}
  std::string bytes() {
    std::string out = choose(4) == 0 ? "" : opening();
    for (std::uint64_t i = choose(6); i > 0; --i) out += message();
    if (!out.empty() && choose(3) == 0) out[choose(out.size())] = static_cast<char>(choose(256));
    return choose(3) == 0 ? out.substr(0, choose(out.size() + 1)) : out;
  }
  std::uint64_t choose(std::uint64_t count) { return count == 0 ? 0 : random_() % count; }

 private:
  std::string key() { return choose(50) == 0 ? number(random_()) : text("/" + std::to_string(choose(5))); }
  std::string value() {
    return choose(50) == 0 ? number(random_()) : text(std::string(choose(2) == 0 ? choose(9) : choose(30000), '1'));
  }
  std::string message() {
    const auto operation = static_cast<Operation>(1 + choose(14));
    std::string out = op(operation);
    switch (operation) {
      case Operation::compare_set:
        return out + key() + value() + value();
      case Operation::set:
      case Operation::append:
        return out + key() + value();
      case Operation::get:
      case Operation::delete_key:
        return out + key();
      case Operation::add:
        return out + key() + number<std::uint64_t>(random_());
      case Operation::ping:
        return out + number<std::uint32_t>(7);
      default:
        break;
    }
    const std::uint64_t count = choose(4);
    out += number(choose(20) == 0 ? random_() : count);
    for (std::uint64_t i = 0; i < count; ++i) out += key() + (operation == Operation::multi_set ? value() : "");
    return out;
  }
  std::mt19937_64 random_;
};

/// KiB, of the program's whole life.
long peak_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

TEST(StoreService, SurvivesHostileClients) {
  [[maybe_unused]] const long before = peak_memory();
  Hostile hostile(1);
  StoreService service;
  std::vector<StoreService::Id> clients;
  for (int i = 0; i < 60'000; ++i) {
    if (clients.size() < 8) clients.push_back(service.open());
    const std::size_t at = hostile.choose(clients.size());
    const bool stays = service.receive(clients[at], hostile.bytes());
    if (hostile.choose(2) == 0) service.take_output(clients[at]);
    if (!stays || hostile.choose(40) == 0) {
      service.close(clients[at]);
      clients.erase(clients.begin() + static_cast<std::ptrdiff_t>(at));
    }
    if (i % 16 == 0) service.take_clients_with_output();
  }
  EXPECT_LE(service.table().bytes(), std::size_t{33} << 20);
  const auto honest = joined(service);
  EXPECT_TRUE(
      service.receive(honest, op(Operation::set) + text("/honest") + text("v") + op(Operation::get) + text("/honest")));
  EXPECT_EQ(service.take_output(honest), text("v"));
#ifndef __SANITIZE_ADDRESS__  // which keeps what is freed for a while
  EXPECT_LE(peak_memory() - before, 64 * 1024) << "KiB";
#endif
}

}  // namespace
