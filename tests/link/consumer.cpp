// A program as a user writes it, against the installed tree, with libckpt alone: strips a .pth and saves it, strips and
// reads a .ckpt while other threads allocate. usage: consumer IN.pth FOLDER
#include <libckpt/ckpt.h>
#include <libckpt/transform/prefix.h>

#include <atomic>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

void require(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
}

/// Allocates and frees until told to stop: a library that forks or locks badly hangs here.
void allocate(const std::atomic<bool>& stop) {
  std::vector<std::vector<char>> blocks(64);
  for (std::size_t i = 0; !stop; ++i) blocks[i % blocks.size()] = std::vector<char>(1024 + i % 65536);
}

void work(const std::string& input, const std::string& folder) {
  ckpt::Checkpoint wrapped = ckpt::open(input);
  ckpt::Checkpoint plain = ckpt::strip_prefix(wrapped);
  ckpt::save(plain, folder + "/plain.pth");
  ckpt::save(wrapped, folder + "/wrapped.ckpt");
  ckpt::save(ckpt::strip_prefix(ckpt::open(folder + "/wrapped.ckpt")), folder + "/plain.ckpt");

  auto from_pth = ckpt::list_entries(ckpt::open(folder + "/plain.pth").root);
  auto from_ckpt = ckpt::list_entries(ckpt::open(folder + "/plain.ckpt").root);
  require(!from_pth.empty() && from_pth.size() == from_ckpt.size(), "the number of tensors changed");
  for (std::size_t i = 0; i < from_pth.size(); ++i) {
    require(from_pth[i].name == from_ckpt[i].name, "a key changed");
    require(from_pth[i].name.rfind("module.", 0) != 0, "a prefix stayed");
    require(ckpt::read_all(*from_pth[i].entry->bytes) == ckpt::read_all(*from_ckpt[i].entry->bytes), "a byte changed");
  }
  std::printf("%zu tensors\n", from_pth.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back(allocate, std::cref(stop));
  int status = 0;
  try {
    work(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    status = 1;
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  return status;
}
