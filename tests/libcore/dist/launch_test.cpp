// What launchers say of a process, read from the environment.
#include "libcore/dist/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <utility>

#include "tests/support/message_of.h"

namespace {

namespace dist = core::distributed;

TEST(Launch, ReadsListsOfSlurm) {
  EXPECT_EQ(dist::first_host("gpu[03-07,9],login"), "gpu03");
  EXPECT_EQ(dist::first_host("gpu[3,9]-ib"), "gpu3-ib");
  EXPECT_EQ(dist::first_host("a1,a2"), "a1");
  EXPECT_EQ(dist::first_host("single"), "single");
  EXPECT_EQ(dist::first_host("broken["), "broken[");
}

/// The environment of a launcher for one scope.
class Environment {
 public:
  explicit Environment(std::map<std::string, std::string> values) : values_(std::move(values)) {
    for (const auto& [name, value] : values_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const auto& [name, value] : values_) ::unsetenv(name.c_str());
  }

 private:
  std::map<std::string, std::string> values_;
};

TEST(Launch, KnowsItsLaunchers) {
  EXPECT_FALSE(dist::is_launched());
  {
    const Environment mpirun({{"OMPI_COMM_WORLD_RANK", "1"},
                              {"OMPI_COMM_WORLD_SIZE", "4"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                              {"PMIX_NAMESPACE", "3141"}});
    const dist::LaunchFacts facts = dist::launch_facts();
    EXPECT_EQ(facts.by, dist::LaunchFacts::By::open_mpi);
    EXPECT_EQ(facts.rank, 1);
    EXPECT_EQ(facts.world_size, 4);
    EXPECT_EQ(facts.master_addr, "127.0.0.1");
    EXPECT_TRUE(facts.master_port.has_value());
    EXPECT_TRUE(dist::is_launched());
  }
  {
    const Environment srun(
        {{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "3"}, {"SLURM_JOB_ID", "77"}, {"SLURM_JOB_NODELIST", "n[1-3]"}});
    const dist::LaunchFacts facts = dist::launch_facts();
    EXPECT_EQ(facts.by, dist::LaunchFacts::By::slurm);
    EXPECT_EQ(facts.master_addr, "n1");
    EXPECT_EQ(facts.rank, 2);
  }
}

TEST(Launch, NamesAVariableThatIsNoNumber) {
  const auto said = [](std::map<std::string, std::string> values) {
    const Environment torchrun(std::move(values));
    return test::message_of([] { dist::launch_facts(); });
  };
  EXPECT_EQ(said({{"RANK", "one"}, {"WORLD_SIZE", "2"}}), "RANK=one is no number");
  EXPECT_EQ(said({{"RANK", "0"}, {"WORLD_SIZE", "2 ranks"}}), "WORLD_SIZE=2 ranks is no number");
  EXPECT_EQ(said({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_PORT", "70000"}}),
            "MASTER_PORT=70000 is no port: 0 to 65535 are");
  EXPECT_EQ(said({{"SLURM_PROCID", "x"}, {"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "2"}}), "SLURM_PROCID=x is no number");
}

}  // namespace
