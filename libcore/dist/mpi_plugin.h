#pragma once
// What libckpt_dist_mpi.so, the plug-in that knows MPI, gives to dist, which does not: messages between processes. A
// plug-in of its own, as every MPI has another binary interface: it is built with the MPI of the machine, and opened
// when the backend mpi is asked for. Functions that can fail return false and leave a sentence in `error`, which has
// kMpiErrorRoom bytes. Internal to dist. Thread safety: all functions, when start() has returned.
// Use: const MpiPlugin& mpi = mpi_plugin(); MpiFacts facts; mpi.start(&facts, error);

#include <cstddef>
#include <cstdint>

namespace core::distributed {

constexpr std::uint32_t kMpiPluginVersion = 1;
constexpr std::size_t kMpiErrorRoom = 1024;
constexpr char kMpiPluginSymbol[] = "ckpt_dist_mpi_plugin";
constexpr std::int64_t kMpiLongestMessage = std::int64_t{1} << 30;  ///< lengths are ints there

struct MpiFacts {
  int rank = 0;
  int size = 1;
  int local_size = 1;  ///< how many of them are on this machine
  int largest_tag = 0;
};

struct MpiPlugin {
  std::uint32_t version;
  /// Begins MPI, once; waits for all processes.
  bool (*start)(MpiFacts* facts, char* error);
  /// Ends MPI; waits for all processes.
  void (*finish)();
  /// A communicator of these ranks of all, numbered as they stand here; all of them call it.
  void* (*open_group)(const int* ranks, int count, char* error);
  void (*close_group)(void* group);
  /// Null for the group means all processes. Begin a message of at most kMpiLongestMessage bytes; null is an error.
  void* (*send)(void* group, const void* data, std::int64_t bytes, int to, int tag, char* error);
  void* (*receive)(void* group, void* data, std::int64_t bytes, int from, int tag, char* error);
  /// Whether it has ended, and how many bytes came; a request that has ended is given up by this.
  bool (*test)(void* request, bool* ended, std::int64_t* bytes, char* error);
  /// Gives up a message that is under way. False when MPI goes on using its memory.
  bool (*cancel)(void* request);
};

}  // namespace core::distributed
