#include "libcore/dist/store.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <thread>

#include "libcore/base/error.h"
#include "libcore/dist/tcp_store.h"
#include "tests/support/free_port.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_dir.h"

namespace {

using namespace core::distributed;
using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::StartsWith;

struct TestFolder {
  test::TempDir folder;
};

/// Makes a store, and others that share its keys.
struct Kind {
  std::string name;
  std::shared_ptr<Store> (*first)(TestFolder& here);
  std::shared_ptr<Store> (*another)(TestFolder& here, const std::shared_ptr<Store>& first);
};

std::shared_ptr<Store> file_store(TestFolder& here) {
  return std::make_shared<FileStore>(here.folder.path() / "store");
}
std::shared_ptr<Store> server_store(TestFolder&) {
  return std::make_shared<TcpStore>(TcpStore::Options{.port = 0, .is_server = true});
}
std::shared_ptr<Store> client_of(TestFolder&, const std::shared_ptr<Store>& first) {
  return std::make_shared<TcpStore>(TcpStore::Options{.port = static_cast<TcpStore&>(*first).port()});
}

const Kind kKinds[] = {
    {"hash", [](TestFolder&) -> std::shared_ptr<Store> { return std::make_shared<HashStore>(); },
     [](TestFolder&, const std::shared_ptr<Store>& first) { return first; }},
    {"file", file_store, [](TestFolder& here, const std::shared_ptr<Store>&) { return file_store(here); }},
    {"tcp", server_store, client_of},
    {"prefix",
     [](TestFolder& here) -> std::shared_ptr<Store> {
       return std::make_shared<PrefixStore>("group", file_store(here));
     },
     [](TestFolder& here, const std::shared_ptr<Store>&) -> std::shared_ptr<Store> {
       return std::make_shared<PrefixStore>("group", file_store(here));
     }},
};

class EveryStore : public testing::TestWithParam<Kind> {
 protected:
  TestFolder here_;
  std::shared_ptr<Store> a_ = GetParam().first(here_);
  std::shared_ptr<Store> b_ = GetParam().another(here_, a_);
};
INSTANTIATE_TEST_SUITE_P(Kinds, EveryStore, testing::ValuesIn(kKinds),
                         [](const auto& kind) { return kind.param.name; });

TEST_P(EveryStore, ShowsToAllWhatOneSets) {
  a_->set("k", std::string("a\0b", 3));
  EXPECT_EQ(b_->get("k"), std::string("a\0b", 3));
  a_->set("k", "");
  EXPECT_EQ(b_->get("k"), "");
  b_->append("k", "x");
  b_->append("k", "y");
  EXPECT_EQ(a_->get("k"), "xy");
}

TEST_P(EveryStore, CountsForAll) {
  EXPECT_EQ(a_->add("n", 3), 3);
  EXPECT_EQ(b_->add("n", -5), -2);
  EXPECT_EQ(a_->get("n"), "-2");
}

TEST_P(EveryStore, ComparesBeforeItSets) {
  EXPECT_EQ(a_->compare_set("k", "x", "y"), "x");
  EXPECT_FALSE(a_->check({"k"}));
  EXPECT_EQ(a_->compare_set("k", "", "one"), "one");
  EXPECT_EQ(b_->compare_set("k", "two", "three"), "one");
  EXPECT_EQ(b_->compare_set("k", "one", "two"), "two");
  EXPECT_EQ(a_->get("k"), "two");
}

TEST_P(EveryStore, DeletesOnce) {
  a_->set("k", "v");
  EXPECT_TRUE(b_->delete_key("k"));
  EXPECT_FALSE(a_->delete_key("k"));
  EXPECT_FALSE(a_->check({"k"}));
}

TEST_P(EveryStore, WaitsForWhatAnotherSets) {
  auto value = std::async(std::launch::async, [&] { return b_->get("late"); });
  EXPECT_EQ(value.wait_for(milliseconds(30)), std::future_status::timeout);
  a_->set("late", "v");
  EXPECT_EQ(value.get(), "v");
}

TEST_P(EveryStore, SaysWhichKeysDidNotCome) {
  const std::string text = test::message_of([&] { b_->wait({"never"}, milliseconds(20)); });
  EXPECT_THAT(text, StartsWith("wait timeout after 20ms, keys: /"));
  EXPECT_THAT(text, HasSubstr("never"));
  a_->set("k", "v");
  EXPECT_EQ(b_->get("k"), "v");  // it still works
}

TEST_P(EveryStore, AddsUpWhatManyThreadsAdd) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) (t % 2 == 0 ? a_ : b_)->add("sum", 1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(a_->add("sum", 0), 200);
}

TEST(FileStore, GoesAwayWithTheLastProcess) {
  TestFolder here;
  const auto path = here.folder.path() / "store";
  auto one = std::make_unique<FileStore>(path, 2);
  auto two = std::make_unique<FileStore>(path, 2);
  one.reset();
  EXPECT_TRUE(std::filesystem::exists(path));
  two.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
}

/// Some of a group were through with the file, and one was killed: the next group has it until its last one is through.
TEST(FileStore, IsNotTakenFromTheNextGroupWhereOneWasKilled) {
  const test::TempDir folder;
  const std::filesystem::path path = folder.path() / "store";
  const pid_t killed = ::fork();
  if (killed == 0) {
    const FileStore store(path, 2);
    ::_exit(0);
  }
  ::waitpid(killed, nullptr, 0);
  { const FileStore through(path, 2); }
  FileStore one(path, 2);
  one.set("key", "value");
  { const FileStore two(path, 2); }
  EXPECT_TRUE(one.check({"key"}));
}

TEST(FileStore, LeavesAFileOfSomebodyElseAsItIs) {
  TestFolder here;
  const auto path = here.folder.path() / "notes.txt";
  test::write_file(path, "my notes");
  EXPECT_THAT(test::message_of([&] { FileStore store(path); }), HasSubstr("is no file of a store"));
  EXPECT_EQ(test::read_file(path), "my notes");
}

TEST(FileStore, ForgetsARecordThatItsWriterCouldNotFinish) {
  TestFolder here;
  const auto path = here.folder.path() / "store";
  FileStore(path).set("whole", "v");
  const std::string whole = test::read_file(path);
  FileStore(path).set("cut", "value");
  const std::string both = test::read_file(path);
  for (std::size_t size = whole.size(); size < both.size(); ++size) {
    test::write_file(path, both.substr(0, size));
    FileStore store(path);
    EXPECT_EQ(store.get("whole"), "v");
    EXPECT_FALSE(store.check({"cut"})) << size;
    store.set("next", "w");
    EXPECT_EQ(FileStore(path).get("next"), "w");
  }
}

TEST(FileStore, NamesAFolderThatIsNotThere) {
  EXPECT_THAT(test::message_of([] { FileStore store("/nonexistent/store"); }),
              StartsWith("/nonexistent/store: the file of the store cannot be opened: No such file"));
}

TEST(TcpStore, SaysThatTheServerDoesNotAnswer) {
  const Socket taken = Socket::listen(0, true);
  const std::uint16_t port = taken.local_port();
  const std::string place = "(127.0.0.1, " + std::to_string(port) + ").";
  EXPECT_EQ(test::message_of([&] { TcpStore store({.port = port, .timeout = milliseconds(100)}); }),
            "The client socket has timed out after 100ms while trying to connect to " + place);
}

TEST(TcpStore, SaysThatThePortIsTaken) {
  const Socket taken = Socket::listen(0, true);
  const std::uint16_t port = taken.local_port();
  EXPECT_EQ(test::message_of([&] { TcpStore store({.port = port, .is_server = true}); }),
            "The server socket has failed to listen on any local network address. port: " + std::to_string(port) +
                ", useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use");
}

TEST(TcpStore, SaysHowManyProcessesCame) {
  EXPECT_EQ(test::message_of([&] {
              TcpStore store({.port = 0, .world_size = 2, .is_server = true, .timeout = milliseconds(1100)});
            }),
            "Timed out after 1 seconds waiting for clients. 1/2 clients joined.");
}

TEST(TcpStore, WaitsForAllProcesses) {
  const auto port = static_cast<std::uint16_t>(test::free_port());
  auto server = std::async(std::launch::async, [&] {
    return std::make_unique<TcpStore>(TcpStore::Options{.port = port, .world_size = 2, .is_server = true});
  });
  TcpStore client({.port = port, .world_size = 2});
  client.set("k", "v");
  EXPECT_EQ(server.get()->get("k"), "v");
}

TEST(TcpStore, SaysThatTheServerIsGone) {
  auto server = std::make_unique<TcpStore>(TcpStore::Options{.port = 0, .is_server = true});
  TcpStore client({.port = server->port()});
  auto waiting = std::async(std::launch::async, [&] { return test::message_of([&] { client.get("never"); }); });
  std::this_thread::sleep_for(milliseconds(20));
  server.reset();
  EXPECT_THAT(waiting.get(), HasSubstr("is gone"));
}

TEST(TcpStore, LeavesItsPortAndServesThoseItHas) {
  TcpStore server({.port = 0, .is_server = true});
  const std::uint16_t port = server.port();
  TcpStore client({.port = port});
  server.stop_listening();
  server.stop_listening();
  EXPECT_THAT(test::message_of([&] { const TcpStore late({.port = port, .timeout = milliseconds(200)}); }),
              HasSubstr("The client socket has timed out after 200ms while trying to connect"));
  TcpStore next({.port = port, .is_server = true});
  TcpStore of_next({.port = port});
  of_next.set("whose", "next");
  server.set("whose", "first");
  EXPECT_EQ(client.get("whose"), "first");
  EXPECT_EQ(next.get("whose"), "next");
}

/// An even port, as Linux gives callers, that nobody listens at.
std::uint16_t port_of_callers() {
  for (int i = 0; i < 1000; ++i) {
    const int port = Socket::listen(0, true).local_port() & ~1;
    try {
      return Socket::listen(static_cast<std::uint16_t>(port), true).local_port();
    } catch (const core::Error&) {  // somebody's
    }
  }
  throw std::runtime_error("no port is free");
}

/// The system gives a caller any free port, the one it calls among them.
TEST(Socket, IsNotConnectedToItself) {
  const std::uint16_t port = port_of_callers();
  constexpr int kPortsOfLinux = 28'232;
  for (int i = 0; i < 2 * kPortsOfLinux; ++i) {
    ASSERT_FALSE(Socket::connect("127.0.0.1", port, std::chrono::steady_clock::now()).is_open()) << i;
  }
}

TEST(TcpStore, CarriesTheLargestValueToSeveralAtOnce) {
  TcpStore server({.port = 0, .is_server = true});
  const std::string large(kMaxStoreValue, 'x');
  server.set("large", large);
  std::vector<std::future<std::size_t>> sizes;
  for (int i = 0; i < 6; ++i) {
    sizes.push_back(
        std::async(std::launch::async, [&] { return TcpStore({.port = server.port()}).get("large").size(); }));
  }
  for (auto& size : sizes) EXPECT_EQ(size.get(), large.size());
  EXPECT_THAT(test::message_of([&] { server.set("k", large + "x"); }), HasSubstr("8388609 bytes"));
  EXPECT_EQ(server.num_keys(), 1);
}

/// Descriptors that a program started by this one would have too.
int inherited_descriptors() {
  int count = 0;
  for (int fd = 0; fd < 256; ++fd) {
    const int flags = ::fcntl(fd, F_GETFD);
    if (flags >= 0 && (flags & FD_CLOEXEC) == 0) ++count;
  }
  return count;
}

TEST(TcpStore, KeepsItsDescriptorsToItself) {
  // A program that outlives the server would hold the pipe open whose end ends the server's thread.
  const int before = inherited_descriptors();
  TcpStore server({.port = 0, .is_server = true});
  EXPECT_EQ(inherited_descriptors(), before);
}

TEST(TcpStore, HangsUpOnWhatIsNoClient) {
  TcpStore server({.port = 0, .is_server = true});
  Socket stranger = Socket::connect("127.0.0.1", server.port(), deadline_after(milliseconds(1000)));
  ASSERT_TRUE(stranger.send_all("GET / HTTP/1.1\r\n", deadline_after(milliseconds(1000))));
  char answer;
  EXPECT_FALSE(stranger.receive_all(&answer, 1, deadline_after(milliseconds(2000))));
  EXPECT_FALSE(stranger.is_timeout());
  EXPECT_EQ(server.add("n", 1), 1);
}

}  // namespace
