// libckpt_dist_mpi.so: messages over MPI, for dist. The only file that knows MPI; see mpi_plugin.h.
#include "libcore/dist/mpi_plugin.h"

#include <mpi.h>

#include <cstdio>
#include <new>

namespace {

using core::distributed::kMpiErrorRoom;
using core::distributed::MpiFacts;
using core::distributed::MpiPlugin;

struct Request {
  MPI_Request handle = MPI_REQUEST_NULL;
  bool is_receive = false;
};

bool good(int code, const char* what, char* error) {
  if (code == MPI_SUCCESS) return true;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  std::snprintf(error, kMpiErrorRoom, "%s: %s", what, text);
  return false;
}

MPI_Comm comm_of(void* group) {
  return group == nullptr ? MPI_COMM_WORLD : *static_cast<MPI_Comm*>(group);
}

/// How many processes share this machine's memory.
int count_here() {
  MPI_Comm here = MPI_COMM_NULL;
  int count = 1;
  if (MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here) == MPI_SUCCESS) {
    MPI_Comm_size(here, &count);
    MPI_Comm_free(&here);
  }
  return count;
}

bool start(MpiFacts* facts, char* error) {
  int level = MPI_THREAD_SINGLE;
  int has_begun = 0;
  MPI_Initialized(&has_begun);
  // A program may have begun MPI for purposes of its own.
  const int code =
      has_begun != 0 ? MPI_Query_thread(&level) : MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
  if (!good(code, "MPI_Init_thread", error)) return false;
  if (level < MPI_THREAD_MULTIPLE) {
    std::snprintf(error, kMpiErrorRoom, "this MPI, or how it was begun, does not allow calls of several threads");
    return false;
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &facts->rank);
  MPI_Comm_size(MPI_COMM_WORLD, &facts->size);
  facts->local_size = count_here();
  int* most = nullptr;
  int is_known = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&most), &is_known);
  facts->largest_tag = is_known != 0 ? *most : 32767;  // what every MPI has at least
  return true;
}

void finish() {
  int has_ended = 0;
  MPI_Finalized(&has_ended);
  if (has_ended == 0) MPI_Finalize();
}

void* open_group(const int* ranks, int count, char* error) {
  MPI_Group all = MPI_GROUP_NULL;
  MPI_Group chosen = MPI_GROUP_NULL;
  MPI_Comm comm = MPI_COMM_NULL;
  const bool is_good = good(MPI_Comm_group(MPI_COMM_WORLD, &all), "MPI_Comm_group", error) &&
                       good(MPI_Group_incl(all, count, ranks, &chosen), "MPI_Group_incl", error) &&
                       good(MPI_Comm_create_group(MPI_COMM_WORLD, chosen, 0, &comm), "MPI_Comm_create_group", error);
  if (chosen != MPI_GROUP_NULL) MPI_Group_free(&chosen);
  if (all != MPI_GROUP_NULL) MPI_Group_free(&all);
  if (!is_good) return nullptr;
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  return new MPI_Comm(comm);
}

void close_group(void* group) {
  auto* comm = static_cast<MPI_Comm*>(group);
  int has_ended = 0;
  MPI_Finalized(&has_ended);
  if (has_ended == 0) MPI_Comm_free(comm);
  delete comm;
}

void* begun(Request* request, int code, const char* what, char* error) {
  if (good(code, what, error)) return request;
  delete request;
  return nullptr;
}

void* send(void* group, const void* data, std::int64_t bytes, int to, int tag, char* error) {
  auto* request = new Request{};
  const int code = MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, to, tag, comm_of(group), &request->handle);
  return begun(request, code, "MPI_Isend", error);
}

void* receive(void* group, void* data, std::int64_t bytes, int from, int tag, char* error) {
  auto* request = new Request{.is_receive = true};
  const int code = MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, from, tag, comm_of(group), &request->handle);
  return begun(request, code, "MPI_Irecv", error);
}

bool test(void* opaque, bool* ended, std::int64_t* bytes, char* error) {
  auto* request = static_cast<Request*>(opaque);
  MPI_Status status;
  int flag = 0;
  const int code = MPI_Test(&request->handle, &flag, &status);
  *ended = code != MPI_SUCCESS || flag != 0;
  if (!*ended) return true;
  int count = 0;
  if (code == MPI_SUCCESS && request->is_receive) MPI_Get_count(&status, MPI_BYTE, &count);
  *bytes = count;
  delete request;
  return good(code, "MPI_Test", error);
}

bool cancel(void* opaque) {
  auto* request = static_cast<Request*>(opaque);
  int flag = 0;
  MPI_Test(&request->handle, &flag, MPI_STATUS_IGNORE);
  // A message that goes out cannot be taken back.
  if (flag == 0 && request->is_receive) {
    MPI_Cancel(&request->handle);
    MPI_Test(&request->handle, &flag, MPI_STATUS_IGNORE);
  }
  if (flag == 0) MPI_Request_free(&request->handle);
  delete request;
  return flag != 0;
}

const MpiPlugin kPlugin{
    core::distributed::kMpiPluginVersion, start, finish, open_group, close_group, send, receive, test, cancel};

}  // namespace

extern "C" __attribute__((visibility("default"))) const MpiPlugin* ckpt_dist_mpi_plugin() {
  return &kPlugin;
}
