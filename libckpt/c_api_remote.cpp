#include "libckpt/c_api_internal.h"
#include "libckpt/remote/remote.h"

using namespace ckpt::detail;

ckpt_status ckpt_enable_remote_files(const ckpt_remote_options* options, ckpt_error** error) {
  return guarded(error, [&] {
    const ckpt_remote_options given = read_options(options, ckpt_remote_options CKPT_REMOTE_OPTIONS_INIT);
    ckpt::RemoteOptions remote;
    remote.insecure_http = given.insecure_http != 0;
    remote.ca_file = text_or(given.ca_file, "");
    remote.hub = text_or(given.hub, "");
    if (given.max_memory != 0) remote.max_memory = given.max_memory;
    remote.insecure_http_name = "insecure_http";
    remote.ca_file_name = "ca_file";
    ckpt::enable_remote_files(std::move(remote));
  });
}
