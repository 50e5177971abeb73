#include "libcore/dist/launch.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace core::distributed {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

std::optional<std::int64_t> number(const char* name) {
  const std::optional<std::string> text = variable(name);
  if (!text) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size()) {
    throw Error(ErrorCode::value, std::string(name) + "=" + *text + " is no number");
  }
  return value;
}

std::optional<std::uint16_t> port(const char* name) {
  const std::optional<std::int64_t> value = number(name);
  if (!value) return std::nullopt;
  if (*value < 0 || *value > 65535) {
    throw Error(ErrorCode::value, std::string(name) + "=" + std::to_string(*value) + " is no port: 0 to 65535 are");
  }
  return static_cast<std::uint16_t>(*value);
}

/// The same port on every process of a job, another one for another job on the same machines.
std::optional<std::uint16_t> port_of_job(const char* name) {
  const std::optional<std::string> job = variable(name);
  if (!job) return std::nullopt;
  std::uint32_t hash = 2166136261U;
  for (const char c : *job) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return static_cast<std::uint16_t>(20000 + hash % 12000);  // below the ports that systems give away themselves
}

void read_open_mpi(LaunchFacts& facts) {
  facts.by = LaunchFacts::By::open_mpi;
  facts.rank = number("OMPI_COMM_WORLD_RANK");
  facts.world_size = number("OMPI_COMM_WORLD_SIZE");
  facts.local_rank = number("OMPI_COMM_WORLD_LOCAL_RANK");
  facts.local_world_size = number("OMPI_COMM_WORLD_LOCAL_SIZE");
  // All of them on this machine: they can find each other here.
  if (facts.local_world_size != facts.world_size) return;
  if (!facts.master_addr) facts.master_addr = "127.0.0.1";
  if (!facts.master_port) facts.master_port = port_of_job("PMIX_NAMESPACE");
  if (!facts.master_port) facts.master_port = port_of_job("OMPI_MCA_ess_base_jobid");
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1) return std::nullopt;
  return value;
}

/// Of "2" or "2(x3)": how many processes, on how many machines that follow each other.
struct Tasks {
  std::int64_t each = 0;
  std::int64_t machines = 1;
};
std::optional<Tasks> tasks_of(std::string_view text) {
  const std::size_t open = text.find('(');
  const std::optional<std::int64_t> each = whole_number(text.substr(0, open));
  if (!each) return std::nullopt;
  if (open == std::string_view::npos) return Tasks{.each = *each};
  std::string_view often = text.substr(open);
  if (!often.starts_with("(x") || !often.ends_with(")")) return std::nullopt;
  often.remove_prefix(2);
  often.remove_suffix(1);
  const std::optional<std::int64_t> machines = whole_number(often);
  if (!machines) return std::nullopt;
  return Tasks{.each = *each, .machines = *machines};
}

/// What a variable such as SLURM_TASKS_PER_NODE=2(x3),1 says of this machine.
std::optional<std::int64_t> tasks_here(const char* name) {
  const std::optional<std::string> list = variable(name);
  if (!list) return std::nullopt;
  const std::int64_t here = number("SLURM_NODEID").value_or(0);
  std::int64_t before = 0;  // machines
  std::optional<std::int64_t> found;
  for (const std::string_view entry : split(*list, ',')) {
    const std::optional<Tasks> tasks = tasks_of(entry);
    if (!tasks) {
      throw Error(ErrorCode::value, std::string(name) + "=" + *list +
                                        " does not say how many processes each machine has, as 4 and 2(x3),1 do");
    }
    if (!found && here - before < tasks->machines) found = tasks->each;
    if (!found) before += tasks->machines;  // no more than `here`
  }
  return found;
}

/// What the step has is not what was asked for: with `srun -n 3 --ntasks-per-node 2` the last machine has one.
std::optional<std::int64_t> tasks_here_by_slurm(std::optional<std::int64_t> world_size) {
  for (const char* name : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"}) {
    if (const auto tasks = tasks_here(name)) return tasks;
  }
  const std::optional<std::int64_t> asked_for = number("SLURM_NTASKS_PER_NODE");
  if (!asked_for || !world_size) return asked_for;
  return std::min(*asked_for, *world_size);
}

void read_slurm(LaunchFacts& facts) {
  facts.by = LaunchFacts::By::slurm;
  facts.rank = number("SLURM_PROCID");
  facts.world_size = number("SLURM_NTASKS");
  if (!facts.world_size) facts.world_size = number("SLURM_NPROCS");
  facts.local_rank = number("SLURM_LOCALID");
  facts.local_world_size = tasks_here_by_slurm(facts.world_size);
  const std::optional<std::string> nodes = variable("SLURM_JOB_NODELIST");
  if (!facts.master_addr && nodes) facts.master_addr = first_host(*nodes);
  const std::string step = variable("SLURM_STEP_ID").value_or("");
  if (!facts.master_port) facts.master_port = port_of_job("SLURM_JOB_ID");
  if (facts.master_port && !variable("MASTER_PORT") && !step.empty()) {
    *facts.master_port =
        static_cast<std::uint16_t>(20000 + (*facts.master_port - 20000 + std::atoi(step.c_str())) % 12000);
  }
}

}  // namespace

std::string first_host(const std::string& node_list) {
  const std::size_t open = node_list.find('[');
  const std::size_t comma = node_list.find(',');
  if (open == std::string::npos || comma < open) return node_list.substr(0, comma);
  const std::size_t end = node_list.find_first_of("-,]", open);
  if (end == std::string::npos) return node_list;
  std::string host = node_list.substr(0, open) + node_list.substr(open + 1, end - open - 1);
  const std::size_t close = node_list.find(']', open);
  const std::size_t next = node_list.find(',', close);
  if (close != std::string::npos)
    host += node_list.substr(close + 1, next == std::string::npos ? next : next - close - 1);
  return host;
}

LaunchFacts launch_facts() {
  LaunchFacts facts;
  facts.master_addr = variable("MASTER_ADDR");
  facts.master_port = port("MASTER_PORT");
  facts.agent_store = variable("TORCHELASTIC_USE_AGENT_STORE") == "True";
  facts.attempt = number("TORCHELASTIC_RESTART_COUNT").value_or(0);
  if (variable("RANK") || variable("WORLD_SIZE")) {
    facts.by = LaunchFacts::By::torchrun;
    facts.rank = number("RANK");
    facts.world_size = number("WORLD_SIZE");
    facts.local_rank = number("LOCAL_RANK");
    facts.local_world_size = number("LOCAL_WORLD_SIZE");
  } else if (variable("OMPI_COMM_WORLD_RANK")) {
    read_open_mpi(facts);
  } else if (variable("SLURM_PROCID") && variable("SLURM_JOB_ID")) {
    read_slurm(facts);
  }
  return facts;
}

bool is_launched() {
  const LaunchFacts facts = launch_facts();
  if (facts.by == LaunchFacts::By::nobody) return false;
  // A batch script of Slurm has the variables too: only a step with several tasks is meant.
  return facts.world_size.value_or(1) > 1 || facts.by == LaunchFacts::By::torchrun;
}

}  // namespace core::distributed
