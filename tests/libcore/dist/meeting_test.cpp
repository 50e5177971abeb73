// How the ranks of a group find each other, where another group met at the same place before: this program starts
// itself as the ranks.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "libcore/base/error.h"
#include "libcore/dist/collectives.h"
#include "libcore/dist/init.h"
#include "libcore/dist/socket.h"
#include "libcore/dist/tcp_store.h"
#include "libcore/tensor/factory.h"
#include "tests/libcore/dist/ranks.h"
#include "tests/support/free_port.h"
#include "tests/support/temp_dir.h"

namespace {

namespace dist = core::distributed;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::MatchesRegex;

void sum_once() {
  const core::Tensor ones = core::ones({1});
  dist::all_reduce(ones);
  if (ones.item<double>() != dist::get_world_size()) throw std::runtime_error("a sum of other ranks");
}

/// Some ranks are through with a group long before others; rank 0, which serves the store, among them or not.
void begin_again_and_again(bool keeps_groups) {
  std::vector<dist::Group> kept;
  for (int i = 0; i < 24; ++i) {
    dist::init_process_group({.timeout = seconds(20)});
    sum_once();
    if (keeps_groups) kept.push_back(dist::default_group());
    if (i % 3 == dist::get_rank()) std::this_thread::sleep_for(milliseconds(i % 2 == 0 ? 30 : 3));
    dist::destroy_process_group();
  }
}

/// Rank 1 dies; rank 0 lives on for a while, as one does that writes down what it had.
void lose_a_rank(const std::string& flag) {
  dist::init_process_group({.timeout = seconds(20)});
  const int rank = dist::get_rank();
  sum_once();
  if (rank == 0) test::write_file(flag, "met");
  if (rank == 1) ::raise(SIGKILL);
  std::this_thread::sleep_for(milliseconds(1500));
}

void die_while_waiting(const std::string& after) {
  std::thread([after] {
    std::this_thread::sleep_for(milliseconds(after.empty() ? 700 : std::stoi(after)));
    ::raise(SIGKILL);
  }).detach();
  dist::init_process_group({.timeout = seconds(20)});
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Says how many seconds it waited.
void wait_in_vain() {
  const double begin = now();
  try {
    dist::init_process_group({.timeout = seconds(3)});
  } catch (const core::Error& error) {
    test::say(std::to_string(now() - begin) + " s: " + error.what());
  }
}

/// Says how many seconds it took and why it ended. REQUIRES: that it cannot succeed.
void meet_in_vain(const std::string& method) {
  const double begin = now();
  try {
    dist::init_process_group({.init_method = method, .timeout = seconds(30)});
    sum_once();
  } catch (const core::Error& error) {
    test::say("time " + std::to_string(now() - begin));
    test::say(error.what());
  }
}

/// A store in which a rank is killed, or stands for five seconds and then ends, as soon as it does this: "set gloo/1"
/// with any key that ends so.
class Trap final : public dist::Store {
 public:
  Trap(std::shared_ptr<dist::Store> store, const std::string& place, bool stands)
      : Store(store->timeout()),
        store_(std::move(store)),
        operation_(place.substr(0, 3)),
        end_(place.substr(4)),
        stands_(stands) {}
  void set(const std::string& key, std::string_view value) override {
    spring("set", key);
    store_->set(key, value);
  }
  std::string get(const std::string& key) override {
    spring("get", key);
    return store_->get(key);
  }
  std::int64_t add(const std::string& key, std::int64_t amount) override {
    spring("add", key);
    return store_->add(key, amount);
  }
  std::string compare_set(const std::string& key, std::string_view expected, std::string_view desired) override {
    return store_->compare_set(key, expected, desired);
  }
  bool check(const std::vector<std::string>& keys) override { return store_->check(keys); }
  void wait(const std::vector<std::string>& keys, milliseconds timeout) override { store_->wait(keys, timeout); }
  bool delete_key(const std::string& key) override { return store_->delete_key(key); }
  std::int64_t num_keys() override { return store_->num_keys(); }
  void append(const std::string& key, std::string_view value) override { store_->append(key, value); }
  milliseconds timeout() const override { return store_->timeout(); }
  void set_timeout(milliseconds timeout) override { store_->set_timeout(timeout); }

 private:
  void spring(const std::string& operation, const std::string& key) {
    if (operation != operation_ || !key.ends_with(end_)) return;
    test::say("time " + std::to_string(now()));
    if (!stands_) ::raise(SIGKILL);
    std::this_thread::sleep_for(seconds(5));
    ::_exit(0);
  }
  std::shared_ptr<dist::Store> store_;
  std::string operation_;
  std::string end_;
  bool stands_;
};

/// Of three ranks, which meet in a store of the program's own.
void connect(const std::string& place) {
  const dist::LaunchFacts facts = dist::launch_facts();
  const int rank = static_cast<int>(*facts.rank);
  const bool stands = std::getenv("STANDS") != nullptr;
  std::shared_ptr<dist::Store> store = std::make_shared<dist::TcpStore>(
      dist::TcpStore::Options{.port = *facts.master_port, .is_server = rank == 0, .timeout = seconds(20)});
  if (rank == 1) store = std::make_shared<Trap>(store, place, stands);
  try {
    dist::init_process_group(
        {.timeout = stands ? milliseconds(2500) : seconds(20), .world_size = 3, .rank = rank, .store = store});
  } catch (const core::Error& error) {
    test::say("time " + std::to_string(now()));
    test::say(error.what());
    throw;
  }
}

int run_rank(const std::string& role, const std::string& argument) {
  return dist::run_main([&] {
    if (role == "again") begin_again_and_again(false);
    if (role == "again_keeping") begin_again_and_again(true);
    if (role == "lose") lose_a_rank(argument);
    if (role == "connect") connect(argument);
    if (role == "wait_and_die") die_while_waiting(argument);
    if (role == "wait_in_vain") wait_in_vain();
    if (role == "meet_in_vain") return meet_in_vain(argument), 0;
    if (role == "once") {
      dist::init_process_group({.init_method = argument.empty() ? "env://" : argument, .timeout = seconds(20)});
      sum_once();
    }
    if (role == "file") {
      dist::init_process_group({.init_method = "file://" + argument, .timeout = seconds(20)});
      sum_once();
      if (std::getenv("DIES") != nullptr && dist::get_rank() == 1) ::raise(SIGKILL);
      std::this_thread::sleep_for(milliseconds(50));
    }
    test::say("done");
    return 0;
  });
}

void wait_for_file(const std::filesystem::path& path) {
  for (int i = 0; i < 1000 && !std::filesystem::exists(path); ++i) std::this_thread::sleep_for(milliseconds(10));
}

void expect_done(const std::vector<test::Ending>& endings) {
  for (const test::Ending& ending : endings) {
    EXPECT_EQ(ending.report, "done\n") << ending.errors;
    EXPECT_EQ(ending.status, 0);
  }
}

std::map<std::string, std::string> at(int port, std::map<std::string, std::string> more = {}) {
  more["MASTER_PORT"] = std::to_string(port);
  return more;
}

class Meeting : public testing::Test {
 protected:
  void SetUp() override {
    std::string missing;
    if (!test::has_backend("gloo", &missing)) GTEST_SKIP() << missing;
  }
};

TEST_F(Meeting, BeginsAgainAtTheSamePortAtOnce) {
  for (const char* role : {"again", "again_keeping"}) {
    for (const int size : {1, 3}) {
      expect_done(test::run_ranks({.role = role, .size = size, .limit = seconds(60), .backend = "gloo"}));
    }
  }
}

/// As a launcher does it that starts all ranks anew when one has died.
TEST_F(Meeting, IsStartedAgainWhileTheOldRankZeroStillLives) {
  for (int i = 0; i < 4; ++i) {
    const test::TempDir folder;
    const int port = test::free_port();
    const std::filesystem::path flag = folder.path() / "flag";
    std::thread first([&] {
      test::run_ranks({.role = "lose", .arguments = {flag}, .size = 3, .environment = at(port), .backend = "gloo"});
    });
    wait_for_file(flag);
    expect_done(test::run_ranks({.role = "once", .size = 3, .environment = at(port), .backend = "gloo"}));
    first.join();
  }
}

/// Rank 1 comes to a rank 0 that waits for others in vain and ends.
TEST_F(Meeting, GoesOverToTheNextRankZero) {
  const int port = test::free_port();
  const auto run_one = [&](const char* role, const char* rank) {
    return test::run_ranks(
        {.role = role, .environment = at(port, {{"RANK", rank}, {"WORLD_SIZE", "3"}}), .backend = "gloo"})[0];
  };
  std::vector<test::Ending> endings(3);
  std::thread old([&] { EXPECT_EQ(run_one("wait_and_die", "0").status, -SIGKILL); });
  std::this_thread::sleep_for(milliseconds(200));
  std::thread one([&] { endings[1] = run_one("once", "1"); });
  old.join();
  std::thread two([&] { endings[2] = run_one("once", "2"); });
  endings[0] = run_one("once", "0");
  one.join();
  two.join();
  expect_done(endings);
}

/// It is waited for as long as the program said, not as long again once it is gone.
TEST_F(Meeting, WaitsNoSecondTimeOutForTheNextRankZero) {
  const auto run_one = [port = test::free_port()](const char* role, const char* rank) {
    return test::run_ranks({.role = role,
                            .arguments = {"2500"},
                            .environment = at(port, {{"RANK", rank}, {"WORLD_SIZE", "3"}}),
                            .backend = "gloo"})[0];
  };
  std::thread zero([&] { EXPECT_EQ(run_one("wait_and_die", "0").status, -SIGKILL); });
  const test::Ending ending = run_one("wait_in_vain", "1");
  zero.join();
  EXPECT_LT(std::stod(ending.report), 4.5) << ending.errors;
}

/// One that dies while the others wait for a third is not counted, and may come again.
TEST_F(Meeting, CountsNobodyWhoHasDied) {
  const int port = test::free_port();
  const auto run_one = [&](const char* role, const char* rank) {
    return test::run_ranks(
        {.role = role, .environment = at(port, {{"RANK", rank}, {"WORLD_SIZE", "3"}}), .backend = "gloo"})[0];
  };
  std::vector<test::Ending> endings(3);
  std::thread zero([&] { endings[0] = run_one("once", "0"); });
  EXPECT_EQ(run_one("wait_and_die", "1").status, -SIGKILL);
  std::thread two([&] { endings[2] = run_one("once", "2"); });
  std::this_thread::sleep_for(milliseconds(300));
  endings[1] = run_one("once", "1");
  zero.join();
  two.join();
  expect_done(endings);
}

/// torchrun serves the store itself, and keeps it when it starts the ranks again.
TEST_F(Meeting, IsStartedAgainInTheStoreOfTorchrun) {
  const int port = test::free_port();
  dist::TcpStore agent({.port = static_cast<std::uint16_t>(port), .is_server = true});
  const test::TempDir folder;
  const std::string flag = folder.path() / "flag";
  const auto run_attempt = [&](const char* role, const char* attempt, const std::string& argument) {
    return test::run_ranks(
        {.role = role,
         .arguments = {argument},
         .size = 3,
         .environment = at(port, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"TORCHELASTIC_RESTART_COUNT", attempt}}),
         .backend = "gloo"});
  };
  EXPECT_EQ(run_attempt("lose", "0", flag)[1].status, -SIGKILL);
  expect_done(run_attempt("again", "1", ""));
  const std::string own = "/worker/attempt_1/default_pg/";
  for (const std::string& method : {std::string("env://"), "tcp://127.0.0.1:" + std::to_string(port)}) {
    expect_done(run_attempt("once", "1", method));
    const std::string token = agent.get(own + "watch/hub").substr(0, 32);
    for (const char* rank : {"0", "1", "2"}) {
      EXPECT_TRUE(agent.check({own + token + "/watch/facts/" + rank}));
      EXPECT_FALSE(agent.check({own + token + "/0/gloo/" + rank})) << "the long lists of addresses fill a store";
    }
  }
  for (const std::string attempt : {"0", "1"}) {  // of torchrun's starts
    EXPECT_TRUE(agent.check({"/worker/attempt_" + attempt + "/default_pg/watch/hub"}));
  }
}

/// Where the rank 0 of a dead group listened, somebody else does now, who says nothing or something.
TEST_F(Meeting, WaitsForNoStrangerAtThePlaceOfADeadGroup) {
  for (const std::string banner : {"", "S", "SSH-2.0-OpenSSH_9.2\r\n"}) {
    const dist::Socket stranger = dist::Socket::listen(0, true);
    const int port = test::free_port();
    dist::TcpStore agent({.port = static_cast<std::uint16_t>(port), .is_server = true});
    agent.set("/worker/attempt_0/default_pg/watch/hub",
              std::string(32, 'a') + std::to_string(stranger.local_port()) + " 127.0.0.1");
    const auto run_one = [&](const char* rank) {
      return test::run_ranks(
          {.role = "once",
           .environment = at(port, {{"RANK", rank}, {"WORLD_SIZE", "2"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}}),
           .backend = "gloo"})[0];
    };
    std::vector<test::Ending> endings(2);
    std::thread one([&] { endings[1] = run_one("1"); });
    std::vector<dist::Socket> callers;
    for (int i = 0; i < 500 && callers.empty(); ++i) {
      std::this_thread::sleep_for(milliseconds(10));
      dist::Socket caller = stranger.accept();
      if (caller.is_open()) callers.push_back(std::move(caller));
    }
    for (dist::Socket& caller : callers) caller.send_some(banner);
    endings[0] = run_one("0");
    one.join();
    EXPECT_EQ(callers.size(), 1);
    expect_done(endings);
  }
}

TEST_F(Meeting, MeetsInAFileThatADeadGroupLeft) {
  const test::TempDir folder;
  const std::string file = folder.path() / "store";
  const auto run_in_file = [&](const char* dies) {
    return test::run_ranks({.role = "file",
                            .arguments = {file},
                            .size = 3,
                            .environment = {{"MASTER_ADDR", ""}, {"MASTER_PORT", ""}, {"DIES", dies}},
                            .backend = "gloo"});
  };
  EXPECT_EQ(run_in_file("yes")[1].status, -SIGKILL);
  EXPECT_TRUE(std::filesystem::exists(file));
  expect_done(run_in_file(""));
}

struct Told {
  double time = 0;
  std::string text;
};
Told told(const test::Ending& ending) {
  Told found;
  std::istringstream lines(ending.report);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("time ")) {
      found.time = std::stod(line.substr(5));
    } else {
      found.text += line;
    }
  }
  return found;
}

/// Before it says at which addresses it listens, and when the others wait for it there.
TEST_F(Meeting, NamesARankThatIsKilledBeforeAllAreConnected) {
  for (const char* place : {"add backend/read", "set gloo/1", "get gloo/0", "get gloo/2"}) {
    const std::vector<test::Ending> endings =
        test::run_ranks({.role = "connect", .arguments = {place}, .size = 3, .limit = seconds(60), .backend = "gloo"});
    EXPECT_EQ(endings[1].status, -SIGKILL) << endings[1].report << endings[1].errors;
    for (const int rank : {0, 2}) {
      const test::Ending& ending = endings[static_cast<std::size_t>(rank)];
      EXPECT_THAT(told(ending).text, MatchesRegex("rank " + std::to_string(rank) +
                                                  " of 3: connecting to all others: rank 1 \\(.+, process [0-9]+\\) "
                                                  "is gone"))
          << place;
      EXPECT_LT(told(ending).time - told(endings[1]).time, 1.5) << place;
      EXPECT_EQ(ending.status, 1);
      EXPECT_EQ(std::count(ending.errors.begin(), ending.errors.end(), '\n'), 1) << ending.errors;
    }
  }
}

/// Not five times as long.
TEST_F(Meeting, WaitsForOneTimeOutForARankThatStands) {
  for (const char* place : {"set gloo/1", "get gloo/0"}) {
    const std::vector<test::Ending> endings = test::run_ranks({.role = "connect",
                                                               .arguments = {place},
                                                               .size = 3,
                                                               .environment = {{"STANDS", "yes"}},
                                                               .limit = seconds(30),
                                                               .backend = "gloo"});
    for (const int rank : {0, 2}) {
      const test::Ending& ending = endings[static_cast<std::size_t>(rank)];
      EXPECT_FALSE(ending.timed_out);
      // As it hears itself, from Gloo where the connection stands, or from the other one.
      EXPECT_THAT(told(ending).text, testing::ContainsRegex("connect(ing)? to all others: .*Timed out waiting 2500ms"));
      EXPECT_LT(told(ending).time - told(endings[1]).time, 4.5) << place;
    }
  }
}

/// Who counts wrong gives two processes one rank.
void expect_twice(const std::vector<std::string>& ranks, const std::string& size, const std::string& method,
                  const std::string& rank) {
  const int port = test::free_port();
  std::vector<test::Ending> endings(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    threads.emplace_back([&, i] {
      std::this_thread::sleep_for(milliseconds(300 * i));
      endings[i] = test::run_ranks({.role = "meet_in_vain",
                                    .arguments = {method},
                                    .environment = at(port, {{"RANK", ranks[i]}, {"WORLD_SIZE", size}}),
                                    .limit = seconds(60),
                                    .backend = "gloo"})[0];
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const test::Ending& ending : endings) {
    const Told said = told(ending);
    EXPECT_THAT(said.text,
                testing::ContainsRegex(
                    "rank " + rank +
                    " is given to two processes: \\(.+, process [0-9]+\\) and \\(.+, "
                    "process [0-9]+\\)\\. Each process needs a RANK of its own, and each training a port or file "
                    "of its own"));
    EXPECT_LT(said.time, 8) << said.text;
    EXPECT_FALSE(ending.timed_out);
  }
}

TEST_F(Meeting, ARankOfTwoProcessesIsNamedByAll) {
  const test::TempDir folder;
  expect_twice({"0", "1", "1"}, "3", "env://", "1");
  expect_twice({"1", "1", "0"}, "3", "env://", "1");
  expect_twice({"0", "0"}, "2", "env://", "0");
  expect_twice({"0", "1", "1"}, "3", "file://" + (folder.path() / "a").string(), "1");
  expect_twice({"0", "0"}, "2", "file://" + (folder.path() / "b").string(), "0");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string role = test::rank_role(argc, argv);
  if (!role.empty()) return run_rank(role, test::rank_argument(argc, argv, 0));
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
