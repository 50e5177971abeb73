// rank_saves FOLDER TENSORS KIB [prepared | copying]: what a save of several processes costs, started by a launcher as
// the ranks: every rank has its rows of TENSORS tensors of KIB each. Prints one JSON line: a durable save, the same
// with a known plan, the stall of the first in the background (with `prepared` in memory that was made ready, with
// `copying` with .copy_in_call), of a later one, how long writing to every tensor takes right behind each, and
// reading the rows back: from the disk into new memory and into the tensors, and into the tensors once more when the
// page cache has the files. rank_table.py sets it beside PyTorch.

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <vector>

#include "libckpt/dist.h"
#include "libcore/dist/collectives.h"
#include "libcore/dist/init.h"
#include "libcore/tensor/factory.h"

namespace {

namespace dist = core::distributed;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// Of all ranks together.
template <class Body>
double seconds(Body body) {
  dist::barrier();
  const Clock::time_point start = Clock::now();
  body();
  dist::barrier();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Of all files, by rank 0: what was written is on the disk then, and in memory only where `keep` says so.
void set_page_cache(const fs::path& folder, bool keep) {
  dist::barrier();
  if (dist::get_rank() == 0) {
    std::vector<char> block(4 << 20);
    for (const auto& entry : fs::directory_iterator(folder)) {
      const int fd = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
      bool done = fd >= 0 && ::fsync(fd) == 0 && ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0;
      ssize_t count = keep ? 1 : 0;
      while (done && count > 0) done = (count = ::read(fd, block.data(), block.size())) >= 0;
      if (fd >= 0) ::close(fd);
      if (!done) throw std::runtime_error("cannot read " + entry.path().string());
    }
  }
  dist::barrier();
}

/// What a training does between two saves takes time enough for what is left to do in the background.
void make_steps() {
  std::this_thread::sleep_for(std::chrono::seconds(3));
}

struct Stalls {
  double writing = 0;  // to every tensor, while nothing is saved
  double first = 0, behind_first = 0;
  double later = 0, behind_later = 0;
};

Stalls stalls_of(const core::StateDict& state, const fs::path& path, ckpt::dist::SaveOptions options,
                 std::string_view how) {
  const auto write_all = [&] {
    return seconds([&] {
      for (const auto& [name, tensor] : state) tensor.add_(0);
    });
  };
  const auto save = [&](double& stall, double& behind) {
    ckpt::dist::PendingSave pending;
    stall = seconds([&] { pending = ckpt::dist::save_async(state, path, options); });
    behind = write_all();
    pending.wait();
    make_steps();
  };
  options.copy_in_call = how == "copying";
  Stalls stalls;
  stalls.writing = write_all();
  if (how == "prepared") {
    ckpt::dist::prepare_save_async(state, options);
    make_steps();
  }
  save(stalls.first, stalls.behind_first);
  save(stalls.later, stalls.behind_later);
  return stalls;
}

int run(const fs::path& folder, int tensors, std::int64_t kib, std::string_view how) {
  dist::init_process_group();
  const int rank = dist::get_rank();
  const int ranks = dist::get_world_size();
  const std::int64_t rows = kib * 256 / 64;  // of 64 floats
  core::StateDict state;
  ckpt::dist::Pieces pieces;
  for (int i = 0; i < tensors; ++i) {
    const std::string name = "model.layer_" + std::to_string(i) + ".weight";
    ckpt::dist::Piece piece = ckpt::dist::shard({rows, 64}, 0, rank, ranks);
    state.set(name, core::full(piece.sizes, rank + 1.0));
    pieces.emplace(name, std::move(piece));
  }
  ckpt::dist::SaveOptions options;
  options.pieces = pieces;
  options.overwrite = true;
  const double first = seconds([&] { ckpt::dist::save(state, folder / "first", options); });
  const double second = seconds([&] { ckpt::dist::save(state, folder / "second", options); });
  options.group = dist::new_group();
  const Stalls stalls = stalls_of(state, folder / "async", options, how);
  set_page_cache(folder / "first", false);
  const double load = seconds([&] {
    ckpt::Value mine = ckpt::dist::load(folder / "first", pieces);
    core::StateDict back = ckpt::to_state_dict(mine.as_dict());
    if (back.size() != state.size()) throw std::runtime_error("not all were read");
  });
  set_page_cache(folder / "first", false);
  const auto fill = [&] { ckpt::dist::load_into(state, folder / "first", pieces); };
  const double filled = seconds(fill);
  set_page_cache(folder / "first", true);
  const double filled_warm = seconds(fill);
  if (rank == 0) {
    std::printf(
        "{\"ranks\": %d, \"tensors\": %d, \"kib\": %lld, \"save_s\": %.3f, \"again_s\": %.3f, \"stall_s\": %.3f, "
        "\"stall_later_s\": %.3f, \"behind_s\": %.3f, \"behind_later_s\": %.3f, \"write_s\": %.3f, "
        "\"load_new_s\": %.3f, \"load_s\": %.3f, \"load_warm_s\": %.3f}\n",
        ranks, tensors, static_cast<long long>(kib), first, second, stalls.first, stalls.later, stalls.behind_first,
        stalls.behind_later, stalls.writing, load, filled, filled_warm);
  }
  dist::destroy_process_group();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view how = argc == 5 ? argv[4] : "";
  if (argc < 4 || argc > 5 || (argc == 5 && how != "prepared" && how != "copying")) {
    return std::fprintf(stderr, "rank_saves FOLDER TENSORS KIB [prepared | copying]\n"), 2;
  }
  return dist::run_main([&] { return run(argv[1], std::atoi(argv[2]), std::atoll(argv[3]), how); });
}
